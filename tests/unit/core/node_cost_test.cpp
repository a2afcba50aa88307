#include "cost/node_cost.h"

#include <gtest/gtest.h>

#include "one_node.h"

namespace antegrad::testing {
namespace node_cost_test {

NodeCost cost(const Types& inputs, const Types& outputs, const std::string& call) {
  const Graph graph = graph_of_call(inputs, outputs, call);
  return node_cost(graph, graph.nodes[0]);
}

TEST(NodeCost, IsWhatItReadsAndWrites) {
  EXPECT_EQ(
      cost({"f32[8, 4]", "f16[4]"}, {"f32[8, 4]"}, "aten::add.Tensor(%0, %1, alpha=scalar(1))"),
      (NodeCost{0, 8 * 4 * 4 + 4 * 2 + 8 * 4 * 4}));
  EXPECT_EQ(cost({"f32[2, 3]", "f32[3, 5]"}, {"f32[2, 5]"}, "aten::mm.default(%0, %1)"),
            (NodeCost{60, (6 + 15 + 10) * 4}));
}

TEST(NodeCost, AnInputThatIsReadTwiceIsReadOnce) {
  EXPECT_EQ(cost({"f32[8]"}, {"f32[8]"}, "aten::mul.Tensor(%0, %0)"), (NodeCost{0, 64}));
}

TEST(NodeCost, OfAnExpandedTensorOnlyWhatIsInMemory) {
  EXPECT_EQ(cost({"f32[8, 4]{0, 1}", "f32[8, 4]"}, {"f32[8, 4]"}, "aten::mul.Tensor(%0, %1)"),
            (NodeCost{0, 4 * 4 + 2 * 8 * 4 * 4}));
  EXPECT_EQ(cost({"f32[0, 4]{0, 1}"}, {"f32[0, 4]"}, "aten::neg.default(%0)"), (NodeCost{0, 0}));
}

TEST(NodeCost, OnlyOutputsThatThereAre) {
  EXPECT_EQ(cost({"f32[8]"}, {"f32[8]", "none"}, "mine::pair.default(%0)"), (NodeCost{0, 64}));
}

TEST(NodeCost, ViewsAndFreshMemoryMoveNothing) {
  EXPECT_EQ(cost({"f32[8, 4]"}, {"f32[4, 8]{1, 4} &0"}, "aten::t.default(%0)"), NodeCost{});
  EXPECT_EQ(cost({}, {"f32[8]"}, "aten::empty.memory_format([8], f32, none, cpu, none, none)"),
            NodeCost{});
}

TEST(NodeCost, WhatReadsSizesAloneStillWrites) {
  EXPECT_EQ(
      cost({"f32[8]"}, {"f32[8]"}, "aten::zeros_like.default(%0, none, none, none, none, none)"),
      (NodeCost{0, 32}));
}

TEST(NodeCost, GathersReadWhatTheyGive) {
  EXPECT_EQ(cost({"f32[1000, 4]", "i64[3]"}, {"f32[3, 4]"},
                 "aten::embedding.default(%0, %1, -1, false, false)"),
            (NodeCost{0, 3 * 4 * 4 + 3 * 8 + 3 * 4 * 4}));
  // More rows are gathered than exist; each is read once.
  EXPECT_EQ(cost({"f32[2, 4]", "i64[30]"}, {"f32[30, 4]"}, "aten::index.Tensor(%0, {%1})"),
            (NodeCost{0, 2 * 4 * 4 + 30 * 8 + 30 * 4 * 4}));
}

TEST(NodeCost, OfWhatLeavesTheDeviceIsAllThatMoves) {
  const NodeCost out = cost({"f32[1000]"}, {"u8[8]"}, "antegrad::offload.default(%0, 0, \"/tmp\")");
  EXPECT_EQ(out, (NodeCost{0, 4008, 4000}));
}

TEST(NodeCost, SizesMayBeSymbols) {
  const Graph graph =
      graph_of_call({"f32[s0, 3]"}, {"f32[s0, 3]"}, "aten::neg.default(%0)", "symbols s0");
  EXPECT_EQ(node_cost(graph, graph.nodes[0], {5}), (NodeCost{0, 2 * 5 * 3 * 4}));
}

}  // namespace node_cost_test
}  // namespace antegrad::testing
