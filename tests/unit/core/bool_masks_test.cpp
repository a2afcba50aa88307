#include "passes/bool_masks.h"

#include <gtest/gtest.h>

#include <string>

#include "pass_graphs.h"

namespace antegrad::testing {
namespace bool_masks_test {

const std::string kMemory =
    "  %4: f32[4, 2] = aten::empty_like.default(%1, none, none, none, none, none)\n";

TEST(BoolMasks, AMaskBecomesBoolsAndNumbers) {
  expect_pass(bool_masks,
              kMemory +
                  "  %5: f32[4, 2], %6: token = aten::bernoulli.p(%4, p=0.7, generator=none; %2)\n"
                  "outputs\n  %5 result\n  %6 generator 0\n",
              "  %4: bool[4, 2], %6: token = antegrad::draw_bools.default([4, 2], 0.7, f32, none; "
              "%2)\n"
              "  %5: f32[4, 2] = aten::_to_copy.default(%4, dtype=f32, layout=none, device=none, "
              "pin_memory=none, non_blocking=false, memory_format=none)\n"
              "outputs\n  %5 result\n  %6 generator 0\n");
}

TEST(BoolMasks, OtherDrawsStay) {
  expect_unchanged(
      bool_masks,
      "  %4: bool[4, 2], %5: token = aten::bernoulli.p(%1, p=0.7, generator=none; %2)\n"
      "  %6: f32[4, 2], %7: token = aten::bernoulli.default(%1, generator=none; %5)\n"
      "  %8: f32[4, 2], %9: token = aten::bernoulli.p(%1, p=0.7, generator=none; %7)\n"
      "outputs\n  %6 result\n  %8 result\n  %9 generator 0\n");
}

}  // namespace bool_masks_test
}  // namespace antegrad::testing
