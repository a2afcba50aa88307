// Backward passes as programs, beside libtorch's engine.

#include <antegrad/antegrad.h>
#include <antegrad/compiled_backward.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "support/bits.h"

namespace antegrad::testing {
namespace backward_test {

using List = std::vector<at::Tensor>;

at::Tensor leaf(at::IntArrayRef sizes) { return at::randn(sizes).requires_grad_(); }

List gradients_of(const List& leaves) {
  List found;
  for (const auto& leaf : leaves) {
    found.push_back(leaf.grad().defined() ? leaf.grad().clone() : at::Tensor());
    leaf.mutable_grad() = at::Tensor();
  }
  return found;
}

TEST(CompiledBackward, GivesEagersGradients) {
  at::manual_seed(0);
  const List leaves{leaf({16, 8}), leaf({4, 16}), leaf({4})};
  const auto x = at::randn({32, 8});
  const auto loss = [&] { return at::linear(at::gelu(x.mm(leaves[0].t())), leaves[1], leaves[2]).square().mean(); };
  loss().backward();
  const auto expected = gradients_of(leaves);
  CompiledBackward scope;
  for (int i = 0; i < 3; ++i) {
    loss().backward();
    EXPECT_TRUE(same_bits(gradients_of(leaves), expected));
  }
  const auto report = scope.report();
  EXPECT_EQ(report.passes, 3);
  EXPECT_EQ(report.captures, 1) << report;
  EXPECT_EQ(report.graphs, 1);
  EXPECT_TRUE(report.eager_reasons.empty()) << report;
  std::cout << report;
}

}  // namespace backward_test
}  // namespace antegrad::testing
