#include "passes/cse.h"

#include <gtest/gtest.h>

#include "pass_graphs.h"

namespace antegrad::testing {
namespace cse_test {

TEST(Cse, MergesEqualNodesAndWhatFollowsFromThem) {
  expect_pass(cse,
              "  %5: f32[4, 2] = aten::neg.default(%0)\n"
              "  %6: f32[4, 2] = aten::neg.default(%0)\n"
              "  %7: f32[4, 2] = aten::relu.default(%6)\n"
              "  %8: f32[4, 2] = aten::relu.default(%5)\n"
              "  %9: f32[4, 2] = aten::add.Tensor(%7, %8, scalar(1))\n"
              "outputs\n  %9 result\n",
              "  %5: f32[4, 2] = aten::neg.default(%0)\n"
              "  %7: f32[4, 2] = aten::relu.default(%5)\n"
              "  %9: f32[4, 2] = aten::add.Tensor(%7, %7, scalar(1))\n"
              "outputs\n  %9 result\n");
}

TEST(Cse, ViewsOfADroppedValueBecomeViewsOfTheOther) {
  expect_pass(cse,
              "  %5: f32[4, 2] = aten::neg.default(%0)\n"
              "  %6: f32[4, 2] = aten::neg.default(%0)\n"
              "  %7: f32[2, 4]{1, 2} &6 = aten::t.default(%6)\n"
              "  %8: f32[2, 4]{1, 2} = aten::relu.default(%7)\n"
              "outputs\n  %8 result\n",
              "  %5: f32[4, 2] = aten::neg.default(%0)\n"
              "  %7: f32[2, 4]{1, 2} &5 = aten::t.default(%5)\n"
              "  %8: f32[2, 4]{1, 2} = aten::relu.default(%7)\n"
              "outputs\n  %8 result\n");
}

TEST(Cse, TellsArgumentsApart) {
  expect_unchanged(cse,
                   "  %5: f32[4, 2] = aten::add.Tensor(%0, %1, scalar(1))\n"
                   "  %6: f32[4, 2] = aten::add.Tensor(%0, %1, scalar(1.0))\n"
                   "  %7: f32[4, 2] = aten::add.Tensor(%1, %0, scalar(1))\n"
                   "  %8: f32[4, 2] = aten::mul.Scalar(%5, scalar(0.0))\n"
                   "  %9: f32[4, 2] = aten::mul.Scalar(%5, scalar(-0.0))\n"
                   "outputs\n  %5 result\n  %6 result\n  %7 result\n  %8 result\n  %9 result\n");
}

TEST(Cse, LeavesDrawsUnknownAndUndefinedContentsAlone) {
  expect_unchanged(cse,
                   "  %5: f32[4, 2], %6: token = aten::bernoulli.p(%0, 0.5, none; %2)\n"
                   "  %7: f32[4, 2], %8: token = aten::bernoulli.p(%0, 0.5, none; %6)\n"
                   "  %9: f32[4, 2] = mine::not_described.default(%0)\n"
                   "  %10: f32[4, 2] = mine::not_described.default(%0)\n"
                   "  %11: f32[4, 2] = aten::empty_like.default(%0, none, none, none, none, none)\n"
                   "  %12: f32[4, 2] = aten::empty_like.default(%0, none, none, none, none, none)\n"
                   "  %13: f32[4, 2] = _c10d_functional::all_reduce.default(%0, \"sum\", \"0\")\n"
                   "  %14: f32[4, 2] = _c10d_functional::all_reduce.default(%0, \"sum\", \"0\")\n"
                   "outputs\n  none result\n  %8 generator 0\n");
}

TEST(Cse, DoesNotMakeTwoOutputsOne) {
  expect_unchanged(cse,
                   "  %5: f32[4, 2] = aten::neg.default(%0)\n"
                   "  %6: f32[4, 2] = aten::neg.default(%0)\n"
                   "outputs\n  %5 result\n  %6 result\n");
  // Nor two outputs views of one storage.
  expect_unchanged(cse,
                   "  %5: f32[4, 2] = aten::neg.default(%0)\n"
                   "  %6: f32[4, 2] = aten::neg.default(%0)\n"
                   "  %7: f32[2, 4]{1, 2} &5 = aten::t.default(%5)\n"
                   "  %8: f32[8] &6 = aten::view.default(%6, [8])\n"
                   "outputs\n  %7 result\n  %8 result\n");
}

TEST(Cse, OfManyEqualNodesOnlyOneOutputMerges) {
  expect_pass(cse,
              "  %5: f32[4, 2] = aten::neg.default(%0)\n"
              "  %6: f32[4, 2] = aten::neg.default(%0)\n"
              "  %7: f32[4, 2] = aten::neg.default(%0)\n"
              "  %8: f32[2, 4]{1, 2} &6 = aten::t.default(%6)\n"
              "  %9: f32[2, 4]{1, 2} &7 = aten::t.default(%7)\n"
              "outputs\n  %8 result\n  %9 result\n",
              "  %5: f32[4, 2] = aten::neg.default(%0)\n"
              "  %7: f32[4, 2] = aten::neg.default(%0)\n"
              "  %8: f32[2, 4]{1, 2} &5 = aten::t.default(%5)\n"
              "  %9: f32[2, 4]{1, 2} &7 = aten::t.default(%7)\n"
              "outputs\n  %8 result\n  %9 result\n");
}

TEST(Cse, EqualViewsThatAreOutputsStayApart) {
  expect_pass(cse,
              "  %5: f32[2, 4]{1, 2} &0 = aten::t.default(%0)\n"
              "  %6: f32[2, 4]{1, 2} &0 = aten::t.default(%0)\n"
              "  %7: f32[2, 4]{1, 2} &0 = aten::t.default(%0)\n"
              "outputs\n  %6 result view_of_input 0\n  %7 result view_of_input 0\n",
              "  %5: f32[2, 4]{1, 2} &0 = aten::t.default(%0)\n"
              "  %7: f32[2, 4]{1, 2} &0 = aten::t.default(%0)\n"
              "outputs\n  %5 result view_of_input 0\n  %7 result view_of_input 0\n");
}

TEST(Cse, OneOfTwoEqualNodesMayBeAnOutput) {
  expect_pass(cse,
              "  %5: f32[4, 2] = aten::neg.default(%0)\n"
              "  %6: f32[4, 2] = aten::neg.default(%0)\n"
              "  %7: f32[4, 2] = aten::relu.default(%5)\n"
              "outputs\n  %6 result\n  %7 result\n",
              "  %5: f32[4, 2] = aten::neg.default(%0)\n"
              "  %7: f32[4, 2] = aten::relu.default(%5)\n"
              "outputs\n  %5 result\n  %7 result\n");
}

TEST(Cse, ABackwardNodeGoesInFavourOfAForwardNode) {
  expect_pass(cse,
              "  %5: f32[4, 2] = aten::sigmoid.default(%0)\n"
              "  %8: f32[4, 2] = aten::neg.default(%5)\n"
              "backward\n"
              "  %6: f32[4, 2] = aten::sigmoid.default(%0)\n"
              "  %7: f32[4, 2] = aten::mul.Tensor(%3, %6)\n"
              "outputs\n  %8 result\n  %7 gradient 0\n",
              "  %5: f32[4, 2] = aten::sigmoid.default(%0)\n"
              "  %8: f32[4, 2] = aten::neg.default(%5)\n"
              "backward\n"
              "  %7: f32[4, 2] = aten::mul.Tensor(%3, %5)\n"
              "outputs\n  %8 result\n  %7 gradient 0\n");
}

TEST(Cse, ABackwardNodeStaysWhereTheForwardsResultIsTheCallersToWrite) {
  expect_unchanged(cse,
                   "  %5: f32[4, 2] = aten::sigmoid.default(%0)\n"
                   "backward\n"
                   "  %6: f32[4, 2] = aten::sigmoid.default(%0)\n"
                   "  %7: f32[4, 2] = aten::mul.Tensor(%3, %6)\n"
                   "outputs\n  %5 result\n  %7 gradient 0\n");
}

TEST(Cse, AForwardNodeNeverGoesInFavourOfABackwardNode) {
  expect_unchanged(cse,
                   "backward\n"
                   "  %5: f32[4, 2] = aten::sigmoid.default(%0)\n"
                   "  %6: f32[4, 2] = aten::mul.Tensor(%3, %5)\n"
                   "forward\n"
                   "  %7: f32[4, 2] = aten::sigmoid.default(%0)\n"
                   "outputs\n  %7 result\n  %6 gradient 0\n");
}

TEST(Cse, FactoriesAreNotSharedBetweenThePasses) {
  expect_unchanged(cse,
                   "  %5: f32[4, 2] = aten::ones.default([4, 2], none, none, none, none)\n"
                   "  %6: f32[4, 2] = aten::add.Tensor(%0, %5, scalar(1))\n"
                   "backward\n"
                   "  %7: f32[4, 2] = aten::ones.default([4, 2], none, none, none, none)\n"
                   "  %8: f32[4, 2] = aten::mul.Tensor(%3, %7)\n"
                   "outputs\n  %6 result\n  %8 gradient 0\n");
}

}  // namespace cse_test
}  // namespace antegrad::testing
