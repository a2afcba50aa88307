#include "passes/bool_masks.h"

#include <gtest/gtest.h>

#include "pass_graphs.h"

namespace antegrad::testing {
namespace bool_masks_test {

TEST(BoolMasks, AMaskBecomesBoolsAndNumbers) {
  expect_pass(bool_masks,
              "  %4: f32[4, 2], %5: token = aten::bernoulli.p(%1, p=0.7, generator=none; %2)\n"
              "outputs\n  %4 result\n  %5 generator 0\n",
              "  %6: bool[4, 2], %5: token = antegrad::draw_bools.default([4, 2], 0.7, f32, none; "
              "%2)\n"
              "  %4: f32[4, 2] = aten::_to_copy.default(%6, dtype=f32, layout=none, device=none, "
              "pin_memory=none, non_blocking=false, memory_format=none)\n"
              "outputs\n  %4 result\n  %5 generator 0\n");
}

TEST(BoolMasks, OtherDrawsStay) {
  expect_unchanged(
      bool_masks,
      "  %4: bool[4, 2], %5: token = aten::bernoulli.p(%1, p=0.7, generator=none; %2)\n"
      "  %6: f32[4, 2], %7: token = aten::bernoulli.default(%1, generator=none; %5)\n"
      "outputs\n  %6 result\n  %7 generator 0\n");
}

}  // namespace bool_masks_test
}  // namespace antegrad::testing
