// Comparison of output descriptions, and the differences as text.

#include "shapes/compare.h"

#include <gtest/gtest.h>

namespace antegrad::testing {
namespace compare_test {

using shapes::Spec;

Spec matrix() {
  Spec spec;
  spec.sizes = {2, 3};
  spec.strides = {3, 1};
  return spec;
}

TEST(ShapesCompare, TextIsThatOfATensorOrANumber) {
  EXPECT_EQ(shapes::to_text(matrix()), "Float[2, 3]/[3, 1] on cpu");
  EXPECT_EQ(shapes::to_text(shapes::integer(4)), "4");
}

TEST(ShapesCompare, TheFirstOutputThatDiffersIsNamed) {
  EXPECT_EQ(shapes::difference({matrix(), matrix()}, {matrix(), matrix()}), "");
  EXPECT_EQ(shapes::difference({matrix()}, {matrix(), matrix()}),
            "1 outputs described, 2 returned");
  auto moved = matrix();
  moved.offset = 1;
  EXPECT_EQ(shapes::difference({matrix(), matrix()}, {matrix(), moved}),
            "output 1: the kernel returns storage_offset 1 instead of 0");
  EXPECT_EQ(shapes::difference({matrix()}, {shapes::integer(4)}),
            "output 0: the kernel returns 4 instead of Float[2, 3]/[3, 1] on cpu");
}

TEST(ShapesCompare, OfIntegersNothingElseCounts) {
  auto a = matrix();
  a.integer = 4;
  EXPECT_EQ(a, shapes::integer(4));
  EXPECT_NE(a, shapes::integer(5));
  EXPECT_NE(a, matrix());
}

}  // namespace compare_test
}  // namespace antegrad::testing
