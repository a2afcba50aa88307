#include "explain/dot.h"

#include <gtest/gtest.h>

#include "partition/default_partition.h"
#include "partition/split.h"
#include "partitions.h"

namespace antegrad::testing {
namespace dot_test {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Dot, FramesForwardAndBackwardAndDrawsCrossingsBold) {
  const std::string dot = to_dot(graph_from_file("mlp.agraph"));
  EXPECT_TRUE(contains(dot, "cluster_forward"));
  EXPECT_TRUE(contains(dot, "cluster_backward"));
  EXPECT_TRUE(contains(dot, "label=\"mm\\n%18 f32[16, 32]\""));
  EXPECT_TRUE(contains(dot, "label=\"0.weight\\n%1 f32[32, 8]\""));
  // Node 15, mm(%19, %7), reads relu's result (node 2) across the border; node 3 does not.
  EXPECT_TRUE(contains(dot, "\"n2\" -> \"n15\" [penwidth=2.5"));
  EXPECT_TRUE(contains(dot, "\"n2\" -> \"n3\";"));
}

TEST(Dot, APartitionDrawsSavedValuesBetweenTheFrames) {
  const std::string dot = to_dot(default_partition(graph_from_file("mlp.agraph")));
  EXPECT_TRUE(contains(dot, "label=\"saved\\n%7 f32[16, 32]\", penwidth=2.5"));
  EXPECT_TRUE(contains(dot, "\"fn2\" -> \"bi2\" [penwidth=2.5"));
  EXPECT_FALSE(contains(dot, "\"bn1\" -> \"bn2\" [penwidth"));
}

TEST(Dot, WhatRunsAgainHasABorder) {
  const Graph graph = graph_of(R"(inputs
  %0: f32[8] primal argument 0 grad
  %9: f32[8] tangent 0
nodes
  %1: f32[8] = aten::exp.default(%0)                                 # 0
backward
  %2: f32[8] = aten::mul.Tensor(%9, %1)                              # 1
outputs
  %1 result
  %2 gradient 0
)");
  const auto drawn = [&](ValueId saved) { return to_dot(split_at(graph, saving(graph, {saved}))); };
  EXPECT_NE(drawn(0).find("penwidth=2]"), std::string::npos);
  EXPECT_EQ(drawn(1).find("penwidth=2]"), std::string::npos);
}

TEST(Dot, EscapesNamesAndDotsTokens) {
  const std::string dot = to_dot(graph_of(R"(generators cpu
inputs
  %0: f32[2] primal parameter "a\"b\\c"
  %1: token generator 0
nodes
  %2: f32[2], %3: token = aten::bernoulli.p(%0, 0.5, none; %1)
outputs
  %2 result
  %3 generator 0
)"));
  EXPECT_TRUE(contains(dot, "a\\\"b\\\\c"));
  EXPECT_TRUE(contains(dot, "\"i1\" -> \"n0\" [style=dotted]"));
}

}  // namespace dot_test
}  // namespace antegrad::testing
