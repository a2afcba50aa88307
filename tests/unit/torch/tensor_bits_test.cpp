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

TEST(TensorBits, AnyNotANumberEqualsAnyOtherAndMinusZeroIsNotZero) {
  for (const auto type : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf, at::kComplexFloat}) {
    auto nan = at::full({2}, std::numeric_limits<float>::quiet_NaN(), type);
    if (nan.is_complex()) at::imag(nan).copy_(at::real(nan));
    EXPECT_EQ(bit_difference(nan, nan.clone()), "") << type;
    EXPECT_EQ(bit_difference(nan, nan.neg()), "") << type;
    EXPECT_NE(bit_difference(nan, at::zeros({2}, type)), "") << type;
    const auto one = at::cat({nan, at::ones({1}, type)}),
               two = at::cat({nan.neg(), at::ones({1}, type) * 2});
    EXPECT_EQ(bit_difference(one, two), "1 of 3 elements differ, by up to 1") << type;
  }
  EXPECT_NE(bit_difference(at::zeros({2}), at::full({2}, -0.0F)), "");
  EXPECT_EQ(bit_difference(at::Tensor(), at::Tensor()), "");
}

}  // namespace tensor_bits_test
}  // namespace antegrad::testing
