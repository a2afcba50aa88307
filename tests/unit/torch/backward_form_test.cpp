// How tangents arrive: which strides count as natural, and which are recorded.

#include "ops/backward_form.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace antegrad::testing {
namespace backward_form_test {

using Ints = torch_compat::Dims;

torch_compat::TensorMetadata natural(const at::Tensor& output) {
  return ops::natural_tangent(torch_compat::TensorMetadata::of(output).to_meta());
}

TEST(BackwardForm, ADenseOutputGivesItsStridesToItsTangent) {
  EXPECT_EQ(natural(at::zeros({2, 3})).strides, (Ints{3, 1}));
  EXPECT_EQ(natural(at::zeros({3, 2}).t()).strides, (Ints{1, 2}));
  EXPECT_EQ(natural(at::zeros({2, 1, 3}).transpose(0, 2)).strides, (Ints{1, 3, 3}));
}

TEST(BackwardForm, WhereTheOutputHasGapsTheTangentIsContiguous) {
  EXPECT_EQ(natural(at::zeros({2, 6}).slice(1, 0, 3)).strides, (Ints{3, 1}));
  EXPECT_EQ(natural(at::zeros({1, 3}).expand({2, 3})).strides, (Ints{3, 1}));
  EXPECT_EQ(natural(at::zeros({2, 3}).slice(0, 0, 2, 1)).strides, (Ints{3, 1}));
}

TEST(BackwardForm, ANaturalTangentHasNoStridesOfItsOwn) {
  const auto of = natural(at::zeros({2, 3}));
  EXPECT_EQ(ops::form_of(at::ones({2, 3}), of), ops::TangentForm());
  EXPECT_EQ(ops::form_of(at::ones({3, 2}).t(), of).strides, (Ints{1, 2}));
  EXPECT_EQ(ops::form_of(at::ones({}).expand({2, 3}), of).strides, (Ints{0, 0}));
  EXPECT_FALSE(ops::form_of(at::Tensor(), of).defined);
}

TEST(BackwardForm, StridesOfDimensionsOfSizeOneSayNothing) {
  const auto of = natural(at::zeros({2, 1}));
  EXPECT_EQ(ops::form_of(at::ones({2}).as_strided({2, 1}, {1, 9}), of), ops::TangentForm());
  EXPECT_EQ(ops::form_of(at::ones({0, 1}).as_strided({0, 1}, {5, 9}), natural(at::zeros({0, 1}))),
            ops::TangentForm());
}

}  // namespace backward_form_test
}  // namespace antegrad::testing
