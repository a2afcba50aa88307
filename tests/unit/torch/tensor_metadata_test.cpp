// Metadata of one tensor: its sources, and each field that may differ.

#include "torch_compat/tensor_metadata.h"

#include <ATen/ATen.h>
#include <antegrad/error.h>
#include <gtest/gtest.h>

namespace antegrad::testing {
namespace tensor_metadata_test {

using torch_compat::Match;
using torch_compat::TensorMetadata;

at::Tensor columns() { return at::zeros({4, 6}, at::kDouble).t().slice(0, 1, 3); }

TEST(TensorMetadata, OfAViewHasItsStridesAndOffset) {
  const auto metadata = TensorMetadata::of(columns());
  EXPECT_EQ(metadata, (TensorMetadata{at::kDouble, at::kCPU, {2, 4}, {1, 6}, 1}));
  EXPECT_EQ(to_text(metadata), "Double[2, 4]/[1, 6]+1 on cpu");
}

TEST(TensorMetadata, GoesToAGraphAndBack) {
  const auto meta = TensorMetadata::of(columns()).to_meta();
  EXPECT_EQ(meta, (TensorMeta{DType::f64, {}, {2, 4}, {1, 6}, 1}));
  EXPECT_EQ(TensorMetadata::of(meta), TensorMetadata::of(columns()));
  EXPECT_THROW(TensorMetadata{.dtype = at::kQInt8}.to_meta(), CaptureError);
}

TEST(TensorMetadata, NamesTheFieldThatDiffers) {
  const auto expected = TensorMetadata::of(at::zeros({2, 3}));
  const auto expect = [&](const at::Tensor& found, const std::string& words) {
    EXPECT_EQ(expected.matches(found), words.empty()) << words;
    EXPECT_EQ(expected.difference(found), words);
    EXPECT_EQ(expected.difference(TensorMetadata::of(found)), words);
    EXPECT_EQ(expected == TensorMetadata::of(found), words.empty()) << words;
  };
  expect(at::ones({2, 3}), "");
  expect(at::Tensor(), "an undefined tensor instead of Float[2, 3]/[3, 1] on cpu");
  expect(at::zeros({2, 3}, at::kDouble), "dtype Double instead of Float");
  expect(at::zeros({2, 3}, at::kMeta), "device meta instead of cpu");
  expect(at::zeros({4, 3}), "sizes [4, 3] instead of [2, 3]");
  expect(at::zeros({6}), "sizes [6] instead of [2, 3]");
  expect(at::zeros({3, 2}).t(), "strides [1, 2] instead of [3, 1]");
  expect(at::zeros({3, 3}).slice(0, 1), "storage_offset 3 instead of 0");
}

TEST(TensorMetadata, OfUndefinedTensorsNothingElseCounts) {
  const TensorMetadata none{.dtype = at::kLong, .sizes = {7}, .defined = false};
  EXPECT_TRUE(none.matches(at::Tensor()));
  EXPECT_EQ(none, TensorMetadata::of(at::Tensor()));
  EXPECT_EQ(none.difference(at::zeros({2})), "Float[2]/[1] on cpu instead of an undefined tensor");
}

TEST(TensorMetadata, ALayoutLeavesOutStridesThatNobodySteps) {
  const auto matches = [](const at::Tensor& a, const at::Tensor& b) {
    return TensorMetadata::of(a).matches(b, Match::layout);
  };
  EXPECT_TRUE(matches(at::zeros({2, 3}), at::zeros({3, 3}).slice(0, 1)));
  EXPECT_TRUE(matches(at::zeros({2, 1}), at::zeros({2}).as_strided({2, 1}, {1, 9})));
  EXPECT_TRUE(matches(at::zeros({3, 0}), at::zeros({0, 3}).t()));
  EXPECT_FALSE(matches(at::zeros({2, 3}), at::zeros({3, 2}).t()));
}

TEST(TensorMetadata, ValuesHaveNoLayout) {
  const auto metadata = TensorMetadata::of(at::zeros({2, 3}));
  EXPECT_TRUE(metadata.matches(at::zeros({3, 2}).t(), Match::values));
  EXPECT_TRUE(metadata.matches(at::zeros({2, 3}).to_sparse(), Match::values));
  EXPECT_EQ(metadata.difference(at::zeros({2}).to_sparse(), Match::values),
            "sizes [2] instead of [2, 3]");
}

TEST(TensorMetadata, DenseIsWithoutGapsAndOverlap) {
  const auto dense = [](const at::Tensor& tensor) {
    const bool found = torch_compat::is_dense(tensor.sizes(), tensor.strides());
    EXPECT_EQ(found, tensor.is_non_overlapping_and_dense());
    return found;
  };
  EXPECT_TRUE(dense(at::zeros({2, 1, 3}).transpose(0, 2)));
  EXPECT_TRUE(dense(at::zeros({0, 3})));
  EXPECT_FALSE(dense(at::zeros({2, 6}).slice(1, 0, 3)));
  EXPECT_FALSE(dense(at::zeros({1, 3}).expand({2, 3})));
}

}  // namespace tensor_metadata_test
}  // namespace antegrad::testing
