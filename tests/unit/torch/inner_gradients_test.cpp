// Gradients that a region cannot give are errors.

#include "runtime/inner_gradients.h"

#include <ATen/ATen.h>
#include <antegrad/error.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>

namespace antegrad::testing {
namespace inner_gradients_test {

using runtime::InnerGradientCheck;
using runtime::InnerResult;

// A region whose result `inner` was used to compute the result with tangent 1.
class InnerGradients : public ::testing::Test {
 protected:
  const at::Tensor x = at::randn({3}).requires_grad_();
  const at::Tensor inner = x.exp(), last = inner * 2;
  InnerGradientCheck check{{InnerResult{torch_compat::weak_function_of(inner), 0, 0}}};
  const at::Tensor tangent = at::ones({3});

  // The outcome if these gradients arrive while that of `asked` is wanted.
  void arrive(const at::Tensor& asked, const torch::autograd::variable_list& tangents) {
    last.register_hook([&](const at::Tensor& gradient) {
      check(tangents);
      return gradient;
    });
    torch::autograd::grad({last}, {asked}, {tangent}, /*retain_graph=*/true);
  }
};

TEST_F(InnerGradients, NobodyAsks) { EXPECT_NO_THROW(arrive(x, {at::Tensor(), tangent})); }

TEST_F(InnerGradients, AskedForWhileAnotherTangentIsThere) {
  EXPECT_THROW(arrive(inner, {at::Tensor(), tangent}), BackwardError);
}

TEST_F(InnerGradients, AskedForWithNoOtherTangent) {
  EXPECT_NO_THROW(arrive(inner, {tangent, at::Tensor()}));
}

TEST_F(InnerGradients, ObservedByAHook) {
  inner.register_hook([](const at::Tensor& gradient) { return gradient; });
  EXPECT_THROW(arrive(x, {at::Tensor(), tangent}), BackwardError);
}

}  // namespace inner_gradients_test
}  // namespace antegrad::testing
