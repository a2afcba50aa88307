#include "passes/no_ops.h"

#include <gtest/gtest.h>

#include "pass_graphs.h"

namespace antegrad::testing {
namespace no_ops_test {

TEST(NoOps, ViewsBackToAnEarlierViewGo) {
  expect_pass(no_ops,
              "  %5: f32[4, 2] &0 = aten::detach.default(%0)\n"
              "  %6: f32[2, 4]{1, 2} &0 = aten::t.default(%5)\n"
              "  %7: f32[4, 2] &0 = aten::t.default(%6)\n"
              "  %8: f32[4, 2] &0 = aten::expand.default(%7, [4, 2], false)\n"
              "  %9: f32[4, 2] = aten::add.Tensor(%8, %7, scalar(1))\n"
              "outputs\n  %9 result\n",
              "  %6: f32[2, 4]{1, 2} &0 = aten::t.default(%0)\n"
              "  %9: f32[4, 2] = aten::add.Tensor(%0, %0, scalar(1))\n"
              "outputs\n  %9 result\n");
}

TEST(NoOps, AViewOfAViewSkipsTheMiddle) {
  expect_pass(no_ops,
              "  %5: f32[8] &0 = aten::view.default(%0, [8])\n"
              "  %6: f32[2, 4] &0 = aten::view.default(%5, [2, 4])\n"
              "  %7: f32[2, 4] = aten::neg.default(%6)\n"
              "  %8: f32[8] = aten::neg.default(%5)\n"
              "outputs\n  %7 result\n  %8 result\n",
              "  %5: f32[8] &0 = aten::view.default(%0, [8])\n"
              "  %6: f32[2, 4] &0 = aten::view.default(%0, [2, 4])\n"
              "  %7: f32[2, 4] = aten::neg.default(%6)\n"
              "  %8: f32[8] = aten::neg.default(%5)\n"
              "outputs\n  %7 result\n  %8 result\n");
}

TEST(NoOps, CopiesToTheSameMetadataGo) {
  expect_pass(no_ops,
              "  %5: f32[4, 2] = aten::clone.default(%0, none)\n"
              "  %6: f32[4, 2] = aten::_to_copy.default(%5, f32, none, none, none, false, none)\n"
              "  %7: f32[4, 2] = aten::neg.default(%6)\n"
              "outputs\n  %7 result\n",
              "  %7: f32[4, 2] = aten::neg.default(%0)\noutputs\n  %7 result\n");
}

TEST(NoOps, ACopyThatGivesAnOutputItsStorageStays) {
  expect_unchanged(no_ops,
                   "  %5: f32[4, 2] = aten::clone.default(%0, none)\noutputs\n  %5 result\n");
  expect_unchanged(no_ops,
                   "  %5: f32[4, 2] = aten::clone.default(%0, none)\n"
                   "  %6: f32[2, 4]{1, 2} &5 = aten::t.default(%5)\noutputs\n  %6 result\n");
}

TEST(NoOps, ACopyThatChangesAnythingStays) {
  expect_unchanged(
      no_ops,
      "  %5: bf16[4, 2] = aten::_to_copy.default(%0, bf16, none, none, none, false, none)\n"
      "  %6: bf16[4, 2] = aten::neg.default(%5)\n"
      "  %7: f32[2, 4]{1, 2} &0 = aten::t.default(%0)\n"
      "  %8: f32[2, 4] = aten::clone.default(%7, format(contiguous))\n"
      "  %9: f32[2, 4] = aten::neg.default(%8)\n"
      "outputs\n  %6 result\n  %9 result\n");
}

TEST(NoOps, ACopyThatLetsALargerStorageDieStays) {
  expect_unchanged(no_ops,
                   "  %5: f32[4, 2] = aten::neg.default(%0)\n"
                   "  %6: f32[1, 2] &5 = aten::slice.Tensor(%5, 0, 0, 1, 1)\n"
                   "  %7: f32[1, 2] = aten::clone.default(%6, none)\n"
                   "  %8: f32[1, 2] = aten::neg.default(%7)\n"
                   "outputs\n  %8 result\n");
}

TEST(NoOps, ArithmeticIsNeverJudged) {
  expect_unchanged(no_ops,
                   "  %5: f32[4, 2] = aten::add.Scalar(%0, scalar(0), scalar(1))\n"
                   "  %6: f32[4, 2] = aten::mul.Scalar(%5, scalar(1))\noutputs\n  %6 result\n");
}

TEST(NoOps, AResultThatIsAViewKeepsItsNode) {
  expect_unchanged(no_ops,
                   "  %5: f32[4, 2] &0 = aten::detach.default(%0)\n"
                   "outputs\n  %5 result view_of_input 0\n");
}

TEST(NoOps, ViewsThatReadTheMemoryAnotherWayStay) {
  const std::string graph = R"(inputs
  %0: c64[4] primal
nodes
  %1: c64[4] &0 = aten::_conj.default(%0)
  %2: c64[4] &0 = aten::detach.default(%1)
  %3: c64[4] = aten::add.Tensor(%2, %0, scalar(1))
outputs
  %3 result
)";
  expect_same(no_ops(graph_of(graph)), graph_of(graph));
}

TEST(NoOps, AForwardViewIsNotReplacedByABackwardOne) {
  expect_unchanged(no_ops,
                   "backward\n  %5: f32[2, 4]{1, 2} &0 = aten::t.default(%0)\n"
                   "  %6: f32[2, 4] = aten::neg.default(%5)\n"
                   "forward\n  %7: f32[2, 4]{1, 2} &0 = aten::t.default(%0)\n"
                   "  %8: f32[2, 4] = aten::neg.default(%7)\n"
                   "outputs\n  %8 result\n  %6 gradient 0\n");
}

}  // namespace no_ops_test
}  // namespace antegrad::testing
