#include "passes/reinplace.h"

#include <gtest/gtest.h>

#include "pass_graphs.h"

namespace antegrad::testing {
namespace reinplace_test {

TEST(Reinplace, AChainOfPointwiseNodesRunsInOneStorage) {
  expect_pass(reinplace,
              "  %5: f32[4, 2] = aten::neg.default(%0)\n"
              "  %6: f32[4, 2] = aten::relu.default(%5)\n"
              "  %7: f32[4, 2] = aten::mul.Tensor(%6, %1)\n"
              "  %8: f32[4, 2] = aten::mul.Tensor(%7, %7)\n"
              "outputs\n  %8 result\n",
              "  %5: f32[4, 2] = aten::neg.default(%0)\n"
              "  %6: f32[4, 2] &5 = aten::relu_.default(%5)\n"
              "  %7: f32[4, 2] &5 = aten::mul_.Tensor(%6, %1)\n"
              "  %8: f32[4, 2] &5 = aten::mul_.Tensor(%7, %7)\n"
              "outputs\n  %8 result\n");
}

TEST(Reinplace, ViewsOfTheResultFollowItsStorage) {
  expect_pass(reinplace,
              "  %5: f32[4, 2] = aten::neg.default(%0)\n"
              "  %6: f32[4, 2] = aten::relu.default(%5)\n"
              "  %7: f32[2, 4]{1, 2} &6 = aten::t.default(%6)\n"
              "  %8: f32[2, 4] = aten::clone.default(%7, format(contiguous))\n"
              "outputs\n  %8 result\n",
              "  %5: f32[4, 2] = aten::neg.default(%0)\n"
              "  %6: f32[4, 2] &5 = aten::relu_.default(%5)\n"
              "  %7: f32[2, 4]{1, 2} &5 = aten::t.default(%6)\n"
              "  %8: f32[2, 4] = aten::clone.default(%7, format(contiguous))\n"
              "outputs\n  %8 result\n");
}

TEST(Reinplace, GraphInputsAreNeverWritten) {
  expect_unchanged(reinplace, "  %5: f32[4, 2] = aten::neg.default(%0)\noutputs\n  %5 result\n");
}

TEST(Reinplace, DonatedInputsAreWrittenAtTheirLastUse) {
  const auto donating = [](Graph graph) { return reinplace(std::move(graph), {0}); };
  expect_pass(donating,
              "  %5: f32[4, 2] = aten::neg.default(%0)\n"
              "  %6: f32[4, 2] = aten::mul.Tensor(%1, %5)\noutputs\n  %6 result\n",
              "  %5: f32[4, 2] &0 = aten::neg_.default(%0)\n"
              "  %6: f32[4, 2] = aten::mul.Tensor(%1, %5)\noutputs\n  %6 result\n");
  expect_unchanged(
      donating,
      "  %5: f32[4, 2] = aten::neg.default(%0)\n"
      "  %6: f32[4, 2] = aten::mul.Tensor(%1, %0)\n"
      "  %7: f32[4, 2] = aten::mul.Tensor(%5, %6)\noutputs\n  %5 result\n  %7 result\n");
}

// A sum that replaces an input may lie in its memory, and nothing else may stay there.
TEST(Reinplace, InputsWithUpdatesGetTheirNewValuesInPlace) {
  const std::string inputs = R"(inputs
  %0: f32[4] primal argument 0 mutates_data
  %1: f32[4] primal argument 1
nodes
)";
  const auto in_place = [&](const std::string& nodes) {
    auto graph = graph_of(inputs + nodes);
    const auto updated = updated_primals(graph);
    return reinplace(std::move(graph), updated);
  };
  expect_same(in_place("  %2: f32[4] = aten::sin.default(%1)\n"
                       "  %3: f32[4] = aten::add.Tensor(%0, %2, 1)\n"
                       "outputs\n  %3 mutated 0 update\n"),
              graph_of(inputs + "  %2: f32[4] = aten::sin.default(%1)\n"
                                "  %3: f32[4] &0 = aten::add_.Tensor(%0, %2, 1)\n"
                                "outputs\n  %3 mutated 0 update\n"));
  for (const auto* stays : {"  %2: f32[4] = aten::neg.default(%0)\n"
                            "  %3: f32[4] = aten::sin.default(%1)\n"
                            "outputs\n  %2 result\n  %3 mutated 0 update\n",
                            "  %3: f32[4] = aten::neg.default(%0)\n"
                            "outputs\n  %3 mutated 0\n"}) {
    expect_same(in_place(stays), graph_of(inputs + stays));
  }
}

TEST(Reinplace, WhatIsReadLaterOrLeavesTheGraphIsNotWritten) {
  expect_unchanged(reinplace,
                   "  %5: f32[4, 2] = aten::sigmoid.default(%0)\n"
                   "  %6: f32[4, 2] = aten::neg.default(%5)\n"
                   "  %7: f32[4, 2] = aten::where.self(%1, %5, %6)\noutputs\n  %7 result\n");
  expect_unchanged(reinplace,
                   "  %5: f32[4, 2] = aten::sigmoid.default(%0)\n"
                   "  %6: f32[4, 2] = aten::neg.default(%5)\n"
                   "outputs\n  %6 result\n  %5 saved\n");
  expect_unchanged(reinplace,
                   "  %5: f32[4, 2] = aten::sigmoid.default(%0)\n"
                   "  %6: f32[2, 4]{1, 2} &5 = aten::t.default(%5)\n"
                   "  %7: f32[4, 2] = aten::neg.default(%5)\n"
                   "  %8: f32[2, 4] = aten::clone.default(%6, format(contiguous))\n"
                   "outputs\n  %7 result\n  %8 result\n");
}

TEST(Reinplace, ANodeThatAlsoReadsAViewOfItsTargetStays) {
  expect_unchanged(reinplace,
                   "  %5: f32[4, 2] = aten::sigmoid.default(%0)\n"
                   "  %6: f32[1, 2] &5 = aten::slice.Tensor(%5, 0, 0, 1, 1)\n"
                   "  %7: f32[4, 2] = aten::add.Tensor(%5, %6, scalar(1))\noutputs\n  %7 result\n");
}

TEST(Reinplace, ATargetWhoseElementsOverlapOrLeaveGapsIsNotWritten) {
  for (const std::string strides : {"{0, 1}", "{4, 1}"}) {
    expect_unchanged(reinplace, "  %5: f32[4, 2]" + strides +
                                    " = aten::sigmoid.default(%0)\n"
                                    "  %6: f32[4, 2]" +
                                    strides + " = aten::neg.default(%5)\noutputs\n  %6 result\n");
  }
}

TEST(Reinplace, OtherMetadataOrAViewAsTargetForbidIt) {
  expect_unchanged(reinplace,
                   "  %5: f32[1, 2] = aten::sum.dim_IntList(%0, [0], true, none)\n"
                   "  %6: f32[4, 2] = aten::add.Tensor(%5, %1, scalar(1))\noutputs\n  %6 result\n");
  expect_unchanged(reinplace,
                   "  %5: f32[4, 2] = aten::clone.default(%0, none)\n"
                   "  %6: f32[2, 2] &5 = aten::slice.Tensor(%5, 0, 0, 2, 1)\n"
                   "  %7: f32[2, 2] = aten::neg.default(%6)\noutputs\n  %7 result\n");
}

}  // namespace reinplace_test
}  // namespace antegrad::testing
