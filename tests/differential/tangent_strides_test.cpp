// Tangents of more patterns of strides than get a program of their own.

#include <ATen/ATen.h>

#include <algorithm>
#include <array>

#include "support/parity.h"

namespace antegrad::testing {
namespace tangent_strides_test {

TEST(TangentStrides, EveryOrderOfFourDimensionsGivesEagersGradient) {
  const auto fn = [](const at::Tensor& x) { return x.sin() * x; };
  auto step = antegrad::compile(fn);
  const auto x = at::randn({2, 3, 4, 5});
  std::array<int64_t, 4> order = {0, 1, 2, 3};
  int orders = 0;
  do {
    std::array<int64_t, 4> sizes{}, back{};
    for (size_t d = 0; d < 4; ++d) {
      sizes[d] = x.size(order[d]);
      back[order[d]] = static_cast<int64_t>(d);
    }
    const auto tangent = at::randn(sizes).permute(back);
    auto eager = x.clone().set_requires_grad(true), compiled = x.clone().set_requires_grad(true);
    fn(eager).backward(tangent);
    step(compiled).backward(tangent);
    EXPECT_TRUE(same_bits(eager.grad(), compiled.grad())) << tangent.strides();
    ++orders;
  } while (std::next_permutation(order.begin(), order.end()));
  EXPECT_EQ(orders, 24);
  EXPECT_EQ(step.report().eager_calls, 0);
}

// A dimension of one element has any stride, and libtorch's kernels order the dimensions of what
// they make by strides.
TEST(TangentStrides, ThoseOfDimensionsOfOneElementMeanNothing) {
  const auto fn = [](const at::Tensor& x) {
    return x.repeat({2, 1, 1, 1}).view({1, 4, 1, 2}).mean(at::IntArrayRef({0, 1}));
  };
  auto step = antegrad::compile(fn);
  auto eager = at::randn({1, 4, 1, 1}).requires_grad_();
  auto compiled = eager.detach().clone().requires_grad_();
  const auto tangent = at::randn({}).expand({1, 2});
  fn(eager).backward(tangent);
  step(compiled).backward(tangent);
  EXPECT_TRUE(same_bits(eager.grad(), compiled.grad()));
  EXPECT_EQ(step.report().eager_calls, 0);
}

}  // namespace tangent_strides_test
}  // namespace antegrad::testing
