#include "passes/dce.h"

#include <gtest/gtest.h>

#include "pass_graphs.h"

namespace antegrad::testing {
namespace dce_test {

TEST(Dce, DropsWhatNoOutputNeeds) {
  expect_pass(dce,
              "  %5: f32[4, 2] = aten::neg.default(%0)\n"
              "  %6: f32[4, 2] = aten::neg.default(%5)\n"
              "  %7: f32[4, 2] = aten::neg.default(%0)\n"
              "outputs\n  %7 result\n",
              "  %7: f32[4, 2] = aten::neg.default(%0)\noutputs\n  %7 result\n");
}

TEST(Dce, KeepsADrawWhoseResultIsDead) {
  expect_unchanged(dce,
                   "  %5: f32[4, 2], %6: token = aten::bernoulli.p(%0, 0.5, none; %2)\n"
                   "outputs\n  none result\n  %6 generator 0\n");
}

TEST(Dce, KeepsCollectivesAndWrites) {
  expect_unchanged(dce,
                   "  %5: f32[4, 2] = _c10d_functional::all_reduce.default(%0, \"sum\", \"0\")\n"
                   "  %6: f32[4, 2] = aten::neg.default(%0)\n"
                   "  %7: f32[4, 2] &6 = aten::neg_.default(%6)\noutputs\n  none result\n");
}

}  // namespace dce_test
}  // namespace antegrad::testing
