// Descriptions of outputs, compared and in words.

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

TEST(ShapesCompare, TextHasAllThatIsCompared) {
  auto spec = matrix();
  EXPECT_EQ(shapes::to_text(spec), "Float[2, 3]/[3, 1] on cpu");
  spec.offset = 7;
  spec.dtype = at::kLong;
  EXPECT_EQ(shapes::to_text(spec), "Long[2, 3]/[3, 1]+7 on cpu");
  spec.integer = 4;
  EXPECT_EQ(shapes::to_text(spec), "4");
  Spec none;
  none.defined = false;
  EXPECT_EQ(shapes::to_text(none), "undefined");
}

TEST(ShapesCompare, TheFirstOutputThatDiffersIsNamed) {
  EXPECT_EQ(shapes::difference({matrix(), matrix()}, {matrix(), matrix()}), "");
  EXPECT_EQ(shapes::difference({matrix()}, {matrix(), matrix()}),
            "1 outputs described, 2 returned");
  auto moved = matrix();
  moved.offset = 1;
  EXPECT_EQ(shapes::difference({matrix(), matrix()}, {matrix(), moved}),
            "output 1 described as Float[2, 3]/[3, 1] on cpu, "
            "returned as Float[2, 3]/[3, 1]+1 on cpu");
}

TEST(ShapesCompare, OfUndefinedOutputsNothingElseCounts) {
  auto a = matrix(), b = Spec();
  a.defined = b.defined = false;
  EXPECT_EQ(a, b);
}

}  // namespace compare_test
}  // namespace antegrad::testing
