// Programs with generated kernels, compared with eager bit for bit.

#include <ATen/ATen.h>
#include <antegrad/antegrad.h>
#include <gtest/gtest.h>

#include "support/bits.h"

namespace antegrad::testing {
namespace lowered_test {

using List = std::vector<at::Tensor>;

Options exact() { return Options().with_verify_graphs(true).with_lowering(Lowering::exact); }

TEST(Lowered, APointwiseChainIsOneKernelInEachDirection) {
  const auto fn = [](const List& xs) {
    return List{((xs[0] * xs[1]).sigmoid() + xs[0].tanh()).exp().sum()};
  };
  auto step = compile(fn, exact());
  const auto run = [&](auto& callable) {
    at::manual_seed(0);
    auto x = at::randn({33, 65}).requires_grad_(), y = at::randn({33, 65}).requires_grad_();
    auto loss = callable(List{x, y})[0];
    loss.backward();
    return List{loss.detach(), x.grad().clone(), y.grad().clone()};
  };
  EXPECT_TRUE(same_bits(run(step), run(fn)));
  const auto report = step.report();
  EXPECT_EQ(report.eager_calls, 0);
  EXPECT_GE(report.programs.at(0).generated_kernels, 2) << report;
}

}  // namespace lowered_test
}  // namespace antegrad::testing
