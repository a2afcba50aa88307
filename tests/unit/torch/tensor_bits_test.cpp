// The difference of two tensors as text.

#include "check/tensor_bits.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>

namespace antegrad::testing {
namespace tensor_bits_test {

using check::bit_difference;

TEST(TensorBits, NamesTheFirstThingThatDiffers) {
  const auto zeros = at::zeros({2, 3});
  EXPECT_NE(bit_difference(zeros, at::Tensor()).find("undefined"), std::string::npos);
  // All bits are zero in both.
  EXPECT_NE(bit_difference(zeros, at::zeros({2, 3}, at::kInt)).find("dtype"), std::string::npos);
  EXPECT_NE(bit_difference(zeros, at::zeros({2, 3}, at::kLong)).find("dtype"), std::string::npos);
  EXPECT_NE(bit_difference(zeros, at::zeros({3, 2})).find("sizes"), std::string::npos);
}

TEST(TensorBits, CountsElementsAndNotTheirStrides) {
  const auto x = at::arange(6, at::kFloat).view({2, 3});
  EXPECT_EQ(bit_difference(x, x.t().contiguous().t()), "");
  auto y = x.clone();
  y[0][1] += 0.5;
  y[1][2] -= 0.25;
  EXPECT_EQ(bit_difference(x, y), "2 of 6 elements differ, by up to 0.5");
  EXPECT_EQ(bit_difference(at::tensor(1.5), at::tensor(2.5)), "was 1.5, is 2.5");
}

TEST(TensorBits, NotANumberEqualsItselfAndMinusZeroIsNotZero) {
  const auto nan = at::full({2}, std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(bit_difference(nan, nan.clone()), "");
  EXPECT_NE(bit_difference(at::zeros({2}), at::full({2}, -0.0F)), "");
  EXPECT_EQ(bit_difference(at::Tensor(), at::Tensor()), "");
}

}  // namespace tensor_bits_test
}  // namespace antegrad::testing
