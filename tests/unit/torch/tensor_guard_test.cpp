// The guard of one tensor: each property that it checks, changed alone.

#include "guards/tensor_guard.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace antegrad::testing {
namespace tensor_guard_test {

using guards::TensorGuard;

TEST(TensorGuard, MatchesWhatHasTheSameMetadata) {
  const TensorGuard guard(at::zeros({2, 3}));
  EXPECT_TRUE(guard.matches(at::ones({2, 3})));
  EXPECT_EQ(guard.difference(at::ones({2, 3})), "");
  EXPECT_EQ(guard.sizes(), at::IntArrayRef({2, 3}));
  EXPECT_EQ(guard.offset(), 0);
}

TEST(TensorGuard, NamesEachPropertyThatDiffers) {
  const auto plain = at::zeros({2, 3});
  const TensorGuard guard(plain);
  const auto expect = [&](const at::Tensor& tensor, const std::string& words) {
    EXPECT_FALSE(guard.matches(tensor)) << words;
    EXPECT_EQ(guard.difference(tensor), words);
  };
  expect(at::Tensor(), "an undefined tensor instead of Float[2, 3]/[3, 1] on cpu");
  expect(at::zeros({2, 3}, at::kDouble), "dtype Double instead of Float");
  expect(at::zeros({2, 3}, at::kMeta), "device meta instead of cpu");
  expect(at::zeros({4, 3}), "sizes [4, 3] instead of [2, 3]");
  expect(at::zeros({6}), "sizes [6] instead of [2, 3]");
  expect(at::zeros({3, 2}).t(), "strides [1, 2] instead of [3, 1]");
  expect(at::zeros({2, 3}).requires_grad_(), "requires_grad true instead of false");
  expect(at::zeros({3, 3}).slice(0, 1), "storage_offset 3 instead of 0");
}

TEST(TensorGuard, TellsATensorWithoutStrides) {
  const auto plain = at::zeros({2, 3});
  const TensorGuard guard(plain);
  EXPECT_FALSE(guard.matches(plain.to_sparse()));
  EXPECT_EQ(guard.difference(plain.to_sparse()), "it is a sparse or mkldnn tensor");
}

TEST(TensorGuard, TellsALeafFromAResult) {
  const auto leaf = at::zeros({2}).requires_grad_();
  const TensorGuard guard(leaf);
  EXPECT_TRUE(guard.matches(at::zeros({2}).requires_grad_()));
  EXPECT_EQ(guard.difference(leaf * 2), "is_leaf false instead of true");
}

TEST(TensorGuard, TellsLazyBits) {
  const auto z = at::zeros({2}, at::kComplexFloat);
  const TensorGuard guard(z);
  EXPECT_FALSE(guard.matches(z.conj()));
  EXPECT_NE(guard.difference(z.conj()).find("dispatch keys"), std::string::npos);
}

TEST(TensorGuard, OfAnUndefinedTensorMatchesUndefinedOnesOnly) {
  const TensorGuard guard{at::Tensor()};
  EXPECT_TRUE(guard.matches(at::Tensor()));
  EXPECT_FALSE(guard.matches(at::zeros({})));
  EXPECT_EQ(guard.difference(at::zeros({})), "Float[]/[] on cpu instead of an undefined tensor");
}

}  // namespace tensor_guard_test
}  // namespace antegrad::testing
