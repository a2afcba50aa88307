// Data on which kernels are compared.

#include "compile/invented_data.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace antegrad::testing {
namespace invented_data_test {

using torch_compat::TensorMetadata;

constexpr int64_t kPeriod = 65521;

TensorMetadata vector_of(int64_t count, at::ScalarType type) {
  return {.dtype = type, .sizes = {count}, .strides = {1}};
}

TEST(InventedData, RepeatsItsSequenceFromAnotherPlaceForEachTensor) {
  compiler::InventedData data;
  const int64_t count = 3 * kPeriod + 100;
  const auto first = data.tensor(vector_of(count, at::kFloat), 0, 1, /*special=*/false);
  const auto second = data.tensor(vector_of(count, at::kFloat), 0, 1, /*special=*/false);
  EXPECT_TRUE(first.slice(0, kPeriod).equal(first.slice(0, 0, count - kPeriod)));
  EXPECT_FALSE(first.equal(second));
  // The second one begins further on in the same numbers.
  EXPECT_TRUE(second.slice(0, 0, kPeriod).equal(first.slice(0, 7919, 7919 + kPeriod)));
  EXPECT_NEAR(first.slice(0, 0, kPeriod).std().item<double>(), 2, 0.1);
}

TEST(InventedData, HasSpecialNumbersIfAsked) {
  compiler::InventedData data;
  for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble}) {
    const auto plain = data.tensor(vector_of(kPeriod, type), 0, 1, /*special=*/false);
    EXPECT_TRUE(plain.isfinite().all().item<bool>());
    const auto special = data.tensor(vector_of(kPeriod, type), 0, 1, /*special=*/true);
    EXPECT_TRUE(special.isnan().any().item<bool>());
    EXPECT_TRUE(special.isposinf().any().item<bool>());
    EXPECT_TRUE(special.isneginf().any().item<bool>());
    EXPECT_GT(special.isfinite().sum().item<int64_t>(), kPeriod * 9 / 10);
  }
}

TEST(InventedData, HasTheLayoutAndTheBoundsThatWereAskedFor) {
  compiler::InventedData data;
  const auto turned = data.tensor({.dtype = at::kHalf, .sizes = {30, 50}, .strides = {1, 30}}, 0, 1,
                                  /*special=*/false);
  EXPECT_EQ(turned.strides(), at::IntArrayRef({1, 30}));
  const auto indices = data.tensor(vector_of(2 * kPeriod, at::kLong), -3, 7, /*special=*/true);
  EXPECT_EQ(indices.min().item<int64_t>(), -3);
  EXPECT_EQ(indices.max().item<int64_t>(), 6);
  const auto one = data.tensor({.dtype = at::kLong}, 5, 6, /*special=*/true);
  EXPECT_EQ(one.item<int64_t>(), 5);
  EXPECT_EQ(data.tensor(vector_of(0, at::kFloat), 0, 1, /*special=*/true).numel(), 0);
}

}  // namespace invented_data_test
}  // namespace antegrad::testing
