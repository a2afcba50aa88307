// Fast reads of a tensor's state, compared with libtorch's own functions.

#include "torch_compat/tensor_state.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>

namespace antegrad::testing {
namespace tensor_state_test {

TEST(TensorState, RequiresGradAndLeafAreAsLibtorchSays) {
  const auto plain = at::zeros({4});
  const auto leaf = at::zeros({4}).requires_grad_();
  const auto result = leaf * 2;
  auto base = at::zeros({4});
  const auto view = base.slice(0, 0, 2);
  base.mul_(leaf);  // the view gets its history from a write to its base
  for (const auto& tensor : {plain, leaf, result, leaf.detach(), leaf.view({2, 2}), base, view}) {
    const auto& impl = *tensor.unsafeGetTensorImpl();
    EXPECT_EQ(torch_compat::requires_grad(impl), tensor.requires_grad());
    if (tensor.requires_grad()) {
      EXPECT_EQ(torch_compat::is_leaf(impl), tensor.is_leaf());
    }
  }
}

TEST(TensorState, ViewsAndDetachedTensorsCountVersionsWithTheirSource) {
  const auto x = at::zeros({4});
  EXPECT_TRUE(torch_compat::same_version_counter(x, x.view({2, 2})));
  EXPECT_TRUE(torch_compat::same_version_counter(x, x.detach()));
  EXPECT_FALSE(torch_compat::same_version_counter(x, at::zeros({4})));
  EXPECT_FALSE(torch_compat::same_version_counter(x, x.variable_data()));
}

TEST(TensorState, ASharedCounterRisesForBoth) {
  const auto from = at::zeros({4}), to = at::zeros({4});
  torch_compat::share_version_counter(from, to);
  const auto before = torch_compat::version_of(to);
  from.add_(1);
  EXPECT_EQ(torch_compat::version_of(to), before + 1);
}

TEST(TensorState, InferenceTensorsHaveVersionZero) {
  const c10::InferenceMode mode;
  const auto x = at::zeros({4});
  x.add_(1);
  EXPECT_EQ(torch_compat::version_of(x), 0);
  EXPECT_FALSE(torch_compat::same_version_counter(x, x));
}

TEST(TensorState, WhatIsNotPlainIsNamed) {
  EXPECT_EQ(torch_compat::why_not_plain(at::zeros({2})), nullptr);
  EXPECT_STREQ(torch_compat::why_not_plain(at::zeros({2, 2}).to_sparse()),
               "a sparse or mkldnn tensor");
  const auto z = at::zeros({2}, at::kComplexFloat);
  EXPECT_STREQ(torch_compat::why_not_plain(z.conj()), "a lazily conjugated or negated tensor");
  EXPECT_EQ(torch_compat::why_not_strided(z.conj()), nullptr);
  EXPECT_STREQ(
      torch_compat::why_not_plain(at::quantize_per_tensor(at::zeros({2}), 1, 0, at::kQInt8)),
      "a quantised tensor");
}

TEST(TensorState, HooksAreCounted) {
  const auto x = at::zeros({2}).requires_grad_();
  EXPECT_EQ(torch_compat::hook_count(x), 0U);
  x.register_hook([](const at::Tensor& gradient) { return gradient; });
  EXPECT_GT(torch_compat::hook_count(x), 0U);
  EXPECT_EQ(torch_compat::hook_count(at::zeros({2})), 0U);
}

}  // namespace tensor_state_test
}  // namespace antegrad::testing
