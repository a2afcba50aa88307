#include "fusion/groups.h"

#include <algorithm>
#include <functional>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "graph/verify.h"
#include "graphs.h"

namespace antegrad::testing {
namespace groups_test {

/// The groups as node ids, "0 1 | 2 | 3", in the order in which they run.
std::string groups_text(const Graph& graph, const FusionGroups& found) {
  std::string text;
  for (const FusionGroup& group : found.groups) {
    if (!text.empty()) text += " | ";
    for (size_t i = 0; i < group.nodes.size(); ++i) {
      text += (i == 0 ? "" : " ") + std::to_string(graph.nodes[group.nodes[i]].id);
    }
  }
  return text;
}

std::string groups_text(const std::string& sections) {
  const Graph graph = graph_of(sections);
  verify(graph);
  return groups_text(graph, fusion_groups(graph));
}

/// The groups of a graph with inputs %0, %1: f32[8, 8] and %2: f32[8], these nodes, and these
/// results.
std::string groups_of(const std::string& nodes, const std::string& results) {
  return groups_text(
      "inputs\n  %0: f32[8, 8] primal argument 0\n  %1: f32[8, 8] primal argument 1\n"
      "  %2: f32[8] primal argument 2\nnodes\n" +
      nodes + "outputs\n" + results);
}

TEST(FusionGroups, AChainOfPointwiseNodesIsOneKernel) {
  const Graph graph = graph_of(
      "inputs\n  %0: f32[8, 8] primal argument 0\n  %1: f32[8] primal argument 1\nnodes\n"
      "  %3: f32[8, 8] = aten::mul.Tensor(%0, %1)  # 0\n"
      "  %4: f32[8, 8] = aten::relu.default(%3)  # 1\n"
      "  %5: f32[8, 8] = aten::add.Tensor(%4, %3, alpha=scalar(1))  # 2\n"
      "outputs\n  %5 result\n");
  const FusionGroups found = fusion_groups(graph);
  EXPECT_EQ(groups_text(graph, found), "0 1 2");
  EXPECT_EQ(found.of_node, (std::vector<int32_t>{0, 0, 0}));
  const FusionGroup& group = found.groups[0];
  EXPECT_TRUE(group.generated);
  EXPECT_EQ(group.bytes_read, 256 + 32);
  EXPECT_EQ(group.bytes_written, 256);
  EXPECT_EQ(group.bytes_vanished, 2 * 256);
}

TEST(FusionGroups, WhatIsReadElsewhereIsWritten) {
  const Graph graph = graph_of(
      "inputs\n  %0: f32[8, 8] primal argument 0\nnodes\n"
      "  %3: f32[8, 8] = aten::relu.default(%0)  # 0\n"
      "  %4: f32[8, 8] = aten::neg.default(%3)  # 1\n"
      "  %5: f32[8, 8] = aten::mm.default(%3, %4)  # 2\n"
      "outputs\n  %5 result\n");
  const FusionGroups found = fusion_groups(graph);
  EXPECT_EQ(groups_text(graph, found), "0 1 | 2");
  EXPECT_EQ(found.groups[0].bytes_written, 2 * 256);
  EXPECT_EQ(found.groups[0].bytes_vanished, 0);
  EXPECT_FALSE(found.groups[1].generated);
  EXPECT_EQ(found.groups[1].bytes_read, 2 * 256);
  EXPECT_EQ(found.groups[1].bytes_written, 256);
}

TEST(FusionGroups, OperatorsOverRowsJoinWhatIsAroundThem) {
  EXPECT_EQ(groups_of("  %3: f32[8, 8] = aten::mul.Tensor(%0, %1)  # 0\n"
                      "  %4: f32[8, 8] = aten::_softmax.default(%3, -1, false)  # 1\n"
                      "  %5: f32[8, 8] = aten::relu.default(%4)  # 2\n",
                      "  %5 result\n"),
            "0 1 2");
  EXPECT_EQ(groups_of("  %3: f32[8, 8] = aten::mul.Tensor(%0, %1)  # 0\n"
                      "  %4: f32[8, 8] = aten::_softmax.default(%3, 0, false)  # 1\n",
                      "  %4 result\n"),
            "0 | 1");
}

// The sums are known after the last row.
TEST(FusionGroups, SumsOverRowsAreReadElsewhere) {
  EXPECT_EQ(
      groups_text("inputs\n  %0: f32[4, 8] primal argument 0\n  %1: f32[4, 8] primal argument "
                  "1\n  %2: f32[4, 1] primal argument 2\n  %3: f32[8] primal argument 3\n"
                  "nodes\n  %4: f32[4, 8], %5: f32[8], %6: f32[8] = "
                  "aten::native_layer_norm_backward.default(%0, %1, [8], %2, %2, %3, %3, "
                  "[true, true, true])  # 0\n"
                  "  %7: f32[4, 8] = aten::neg.default(%4)  # 1\n"
                  "  %8: f32[8] = aten::neg.default(%5)  # 2\n"
                  "outputs\n  %6 result\n  %7 result\n  %8 result\n"),
      "0 1 | 2");
}

TEST(FusionGroups, BatchNormalisationsJoinOverChannels) {
  const std::string inputs =
      "inputs\n  %0: f32[4, 8, 2, 4] primal argument 0\n  %1: f32[8] primal argument 1\n";
  const std::string norm =
      "nodes\n  %2: f32[4, 8, 2, 4], %3: f32[8], %4: f32[8], %5: f32[8], %6: f32[8] = "
      "aten::_native_batch_norm_legit_functional.default(%0, %1, %1, %1, %1, true, 0.1, 1e-05)"
      "  # 0\n";
  // Its gradient reads dy behind relu.
  EXPECT_EQ(groups_text(inputs + norm +
                        "  %7: f32[4, 8, 2, 4] = aten::relu.default(%2)  # 1\n"
                        "  %8: f32[4, 8, 2, 4], %9: f32[8], %10: f32[8] = "
                        "aten::native_batch_norm_backward.default(%7, %0, %1, %1, %1, %3, %4, "
                        "true, 1e-05, [true, true, true])  # 2\n"
                        "outputs\n  %8 result\n  %9 result\n"),
            "0 1 2");
  // Rows of another kind, though as many and as long.
  EXPECT_EQ(groups_text(inputs + norm +
                        "  %7: f32[4, 8] = aten::mean.dim(%2, [2, 3], false, none)  # 1\n"
                        "outputs\n  %7 result\n"),
            "0 | 1");
}

TEST(FusionGroups, NoPathLeavesAGroupAndComesBack) {
  EXPECT_EQ(groups_of("  %3: f32[8, 8] = aten::relu.default(%0)  # 0\n"
                      "  %4: f32[8, 8] = aten::mm.default(%3, %1)  # 1\n"
                      "  %5: f32[8, 8] = aten::add.Tensor(%3, %4, alpha=scalar(1))  # 2\n",
                      "  %5 result\n"),
            "0 | 1 | 2");
}

TEST(FusionGroups, ReductionsEndAndBeginAGroup) {
  EXPECT_EQ(groups_of("  %3: f32[8, 8] = aten::exp.default(%0)  # 0\n"
                      "  %4: f32[8, 1] = aten::sum.dim_IntList(%3, [1], true, none)  # 1\n"
                      "  %5: f32[8, 1] = aten::reciprocal.default(%4)  # 2\n"
                      "  %6: f32[8, 8] = aten::mul.Tensor(%3, %5)  # 3\n",
                      "  %6 result\n"),
            "0 1 2 3");
  // Rows of two different shapes.
  EXPECT_EQ(groups_of("  %3: f32[8, 8] = aten::exp.default(%0)  # 0\n"
                      "  %4: f32[8] = aten::sum.dim_IntList(%3, [1], false, none)  # 1\n"
                      "  %5: f32[] = aten::sum.default(%4, none)  # 2\n",
                      "  %5 result\n"),
            "0 1 | 2");
}

TEST(FusionGroups, AReductionOverTheFirstDimensionsOnlyEndsOne) {
  EXPECT_EQ(groups_of("  %3: f32[8, 8] = aten::exp.default(%0)  # 0\n"
                      "  %4: f32[8] = aten::sum.dim_IntList(%3, [0], false, none)  # 1\n"
                      "  %5: f32[8] = aten::neg.default(%4)  # 2\n",
                      "  %5 result\n"),
            "0 1 | 2");
  EXPECT_EQ(groups_of("  %3: f32[8, 8] = aten::exp.default(%0)  # 0\n"
                      "  %4: f32[1, 8] = aten::sum.dim_IntList(%3, [0], true, none)  # 1\n"
                      "  %5: f32[8, 8] = aten::mul.Tensor(%3, %4)  # 2\n",
                      "  %5 result\n"),
            "0 1 | 2");
}

TEST(FusionGroups, EqualPartsOfAResultEndAGroup) {
  const std::string nodes =
      "  %3: f32[8, 8] = aten::exp.default(%0)  # 0\n"
      "  %4: f32[8, 8] = aten::neg.default(%0)  # 1\n"
      "  %5: f32[8, 24] = aten::cat.default({%3, %4, %1}, 1)  # 2\n"
      "  %6: f32[8, 24] = aten::relu.default(%5)  # 3\n";
  EXPECT_EQ(groups_of(nodes, "  %6 result\n"), "0 1 2 | 3");
  EXPECT_EQ(groups_of("  %3: f32[8] = aten::exp.default(%2)  # 0\n"
                      "  %4: f32[8, 8] = aten::neg.default(%0)  # 1\n"
                      "  %5: f32[8] = aten::sum.dim_IntList(%4, [1], false, none)  # 2\n"
                      "  %6: f32[8, 2] = aten::stack.default({%3, %5}, 1)  # 3\n",
                      "  %6 result\n"),
            "0 1 2 3");
  EXPECT_EQ(groups_of("  %3: f32[8, 1] = aten::sum.dim_IntList(%0, [1], true, none)  # 0\n"
                      "  %4: f32[8, 9] = aten::cat.default({%0, %3}, 1)  # 1\n",
                      "  %4 result\n"),
            "0 | 1");
}

TEST(FusionGroups, WhatIsBroadcastIsComputedWhereItIsRead) {
  const std::string nodes =
      "  %3: f32[8] = aten::exp.default(%2)  # 0\n"
      "  %4: f32[8, 8] = aten::mul.Tensor(%0, %3)  # 1\n";
  EXPECT_EQ(groups_of(nodes, "  %4 result\n"), "0 1");
  EXPECT_EQ(groups_of(nodes, "  %4 result\n  %3 result\n"), "0 | 1");
  EXPECT_EQ(groups_of(nodes + "  %5: f32[8] = aten::dot.default(%3, %2)  # 2\n",
                      "  %4 result\n  %5 result\n"),
            "0 | 1 | 2");
}

TEST(FusionGroups, ViewsStandWithWhatTheyShow) {
  EXPECT_EQ(groups_of("  %3: f32[8, 8] = aten::exp.default(%0)  # 0\n"
                      "  %4: f32[64] &3 = aten::view.default(%3, [64])  # 1\n"
                      "  %5: f32[64] = aten::neg.default(%4)  # 2\n",
                      "  %5 result\n"),
            "0 1 2");
  // A view of an input, and a view of another kernel's result, belong to no group.
  EXPECT_EQ(groups_of("  %3: f32[8, 8]{1, 8} &0 = aten::t.default(%0)  # 0\n"
                      "  %4: f32[8, 8] = aten::mm.default(%3, %1)  # 1\n"
                      "  %5: f32[64] &4 = aten::view.default(%4, [64])  # 2\n"
                      "  %6: f32[64] = aten::neg.default(%5)  # 3\n",
                      "  %6 result\n"),
            "1 | 3");
}

TEST(FusionGroups, WhatIsShownInAnotherOrderIsComputedThereWhenNobodyElseReadsIt) {
  const std::string nodes =
      "  %3: f32[8, 8] = aten::exp.default(%0)  # 0\n"
      "  %4: f32[8, 8]{1, 8} &3 = aten::t.default(%3)  # 1\n"
      "  %5: f32[8, 8] = aten::add.Tensor(%4, %1, alpha=scalar(1))  # 2\n";
  EXPECT_EQ(groups_of(nodes, "  %5 result\n"), "0 1 2");
  EXPECT_EQ(groups_of(nodes, "  %5 result\n  %3 result\n"), "0 1 | 2");
  // Its rows are columns of the producer's result.
  EXPECT_EQ(groups_of("  %3: f32[8, 8] = aten::exp.default(%0)  # 0\n"
                      "  %4: f32[8, 8]{1, 8} &3 = aten::t.default(%3)  # 1\n"
                      "  %5: f32[8] = aten::sum.dim_IntList(%4, [1], false, none)  # 2\n",
                      "  %5 result\n"),
            "0 1 | 2");
  // Only a part of the producer's result.
  EXPECT_EQ(groups_of("  %3: f32[8, 8] = aten::exp.default(%0)  # 0\n"
                      "  %4: f32[4, 8] &3 = aten::slice.Tensor(%3, 0, 0, 4, 1)  # 1\n"
                      "  %5: f32[4, 8] = aten::neg.default(%4)  # 2\n",
                      "  %5 result\n"),
            "0 1 | 2");
}

TEST(FusionGroups, AGatherPicksFromMemory) {
  EXPECT_EQ(groups_text("inputs\n  %0: f32[8] primal argument 0\n  %1: i64[8] primal argument 1\n"
                        "nodes\n  %3: f32[8] = aten::exp.default(%0)  # 0\n"
                        "  %4: i64[8] = aten::neg.default(%1)  # 1\n"
                        "  %5: f32[8] = aten::gather.default(%3, 0, %4, false)  # 2\n"
                        "  %6: f32[8] = aten::neg.default(%5)  # 3\n"
                        "outputs\n  %6 result\n"),
            "0 | 1 2 3");
}

TEST(FusionGroups, PhasesAndDevicesStayApart) {
  EXPECT_EQ(groups_text("inputs\n  %0: f32[8] primal argument 0 grad\n  %9: f32[8] tangent 0\n"
                        "nodes\n  %3: f32[8] = aten::exp.default(%0)  # 0\n"
                        "backward\n  %5: f32[8] = aten::mul.Tensor(%9, %3)  # 1\n"
                        "outputs\n  %3 result grad\n  %5 gradient 0\n"),
            "0 | 1");
  EXPECT_EQ(
      groups_text("inputs\n  %0: f32[] primal argument 0\n  %1: f32[] cuda:0 primal argument 1\n"
                  "nodes\n  %3: f32[] = aten::exp.default(%0)  # 0\n"
                  "  %5: f32[] cuda:0 = aten::mul.Tensor(%1, %3)  # 1\n"
                  "outputs\n  %5 result\n"),
      "0 | 1");
}

TEST(FusionGroups, ABackwardJoinsWhatItRunsAgain) {
  EXPECT_EQ(groups_text("inputs\n  %0: f32[8] saved\n  %9: f32[8] tangent 0\n"
                        "nodes\n  %3: f32[8] = aten::exp.default(%0)  # 0\n"
                        "backward\n  %5: f32[8] = aten::mul.Tensor(%9, %3)  # 1\n"
                        "outputs\n  %5 gradient 0\n"),
            "0 1");
}

TEST(FusionGroups, DrawsJoinWhatReadsThem) {
  const Graph graph = graph_from_file("dropout.agraph");
  const FusionGroups found = fusion_groups(graph);
  for (const FusionGroup& group : found.groups) EXPECT_FALSE(group.nodes.empty());
  EXPECT_EQ(groups_text("generators cpu\ninputs\n  %0: f32[8] primal argument 0\n"
                        "  %1: token generator 0\nnodes\n"
                        "  %3: f32[8], %4: bool[8], %5: token = "
                        "aten::native_dropout.default(%0, 0.5, true; %1)  # 0\n"
                        "  %6: f32[8] = aten::neg.default(%3)  # 1\n"
                        "outputs\n  %6 result\n  %5 generator 0\n"),
            "0 1");
}

TEST(FusionGroups, MemoryThatIsWrittenKeepsItsOrder) {
  // Node 1 writes the value that node 0 reads. Node 2 reads the results of both, which are equal
  // only after the write.
  EXPECT_EQ(groups_text("inputs\n  %0: f32[8] primal argument 0\nnodes\n"
                        "  %3: f32[8] = aten::exp.default(%0)  # 0\n"
                        "  %4: f32[8] = aten::neg.default(%3)  # 1\n"
                        "  %5: f32[8] &3 = aten::sigmoid_.default(%3)  # 2\n"
                        "  %6: f32[8] = aten::add.Tensor(%4, %5, alpha=scalar(1))  # 3\n"
                        "outputs\n  %6 result\n"),
            "0 1 | 2 | 3");
}

TEST(FusionGroups, AreNotEndless) {
  std::string nodes;
  for (int i = 0; i < 150; ++i) {
    nodes += "  %" + std::to_string(i + 1) + ": f32[8] = aten::neg.default(%" + std::to_string(i) +
             ")\n";
  }
  const Graph graph = graph_of("inputs\n  %0: f32[8] primal argument 0\nnodes\n" + nodes +
                               "outputs\n  %150 result\n");
  const FusionGroups found = fusion_groups(graph);
  EXPECT_LE(found.groups.size(), 6u);
  for (const FusionGroup& group : found.groups) EXPECT_LE(group.nodes.size(), 64u);
}

// ---- against the best of all ways ---------------------------------------------------------------

/// A graph of square matrices with sums, which are fusible, and products, which are not.
Graph random_squares(uint64_t seed, int nodes) {
  std::mt19937_64 random(seed);
  std::string text = "inputs\n  %0: f32[8, 8] primal argument 0\nnodes\n";
  std::vector<bool> read(static_cast<size_t>(nodes) + 1, false);
  for (int i = 1; i <= nodes; ++i) {
    const auto a = random() % static_cast<uint64_t>(i);
    const auto b = random() % static_cast<uint64_t>(i);
    read[a] = read[b] = true;
    text += "  %" + std::to_string(i) +
            ": f32[8, 8] = aten::" + (random() % 4 == 0 ? "mm.default" : "mul.Tensor") + "(%" +
            std::to_string(a) + ", %" + std::to_string(b) + ")\n";
  }
  text += "outputs\n";
  for (int i = 1; i <= nodes; ++i) {
    if (!read[i]) text += "  %" + std::to_string(i) + " result\n";
  }
  return graph_of(text);
}

/// The number of values that need not be materialised under these groups; -1 if the groups cannot
/// run.
int vanished(const Graph& graph, const std::vector<int>& group) {
  const auto count = static_cast<int>(graph.nodes.size());
  std::vector<std::vector<bool>> reaches(count, std::vector<bool>(count, false));
  const auto reads = [&](int user, int made) {
    const auto& inputs = graph.nodes[user].inputs;
    return std::find(inputs.begin(), inputs.end(), graph.nodes[made].outputs[0]) != inputs.end();
  };
  // Nodes of a group reach everything that any of them reaches.
  for (int a = 0; a < count; ++a) {
    for (int b = 0; b < count; ++b) reaches[a][b] = group[a] == group[b] || reads(b, a);
  }
  for (int via = 0; via < count; ++via) {
    for (int a = 0; a < count; ++a) {
      for (int b = 0; b < count; ++b) {
        if (reaches[a][via] && reaches[via][b]) reaches[a][b] = true;
      }
    }
  }
  int sum = 0;
  for (int a = 0; a < count; ++a) {
    bool used = false;
    bool elsewhere = false;
    for (int b = 0; b < count; ++b) {
      if (group[a] != group[b] && reaches[a][b] && reaches[b][a]) return -1;
      const bool sums =
          graph.nodes[a].op.traits().pointwise && graph.nodes[b].op.traits().pointwise;
      if (a != b && group[a] == group[b] && !sums) return -1;
      used = used || reads(b, a);
      elsewhere = elsewhere || (reads(b, a) && group[a] != group[b]);
    }
    if (used && !elsewhere) ++sum;
  }
  return sum;
}

TEST(FusionGroups, ComeCloseToTheBestOfAllWaysOnSmallGraphs) {
  int64_t ours = 0;
  int64_t best = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const int nodes = 3 + static_cast<int>(seed % 5);
    const Graph graph = random_squares(seed, nodes);
    int most = 0;
    std::vector<int> group(static_cast<size_t>(nodes), 0);
    const std::function<void(int, int)> try_all = [&](int node, int groups) {
      if (node == nodes) {
        most = std::max(most, vanished(graph, group));
        return;
      }
      for (int g = 0; g <= groups; ++g) {
        group[node] = g;
        try_all(node + 1, std::max(groups, g + 1));
      }
    };
    try_all(0, 0);
    const FusionGroups found = fusion_groups(graph);
    const int made = vanished(graph, std::vector<int>(found.of_node.begin(), found.of_node.end()));
    int64_t bytes = 0;
    for (const FusionGroup& one : found.groups) bytes += one.bytes_vanished;
    ASSERT_EQ(bytes, made * 256) << "seed " << seed;
    ASSERT_LE(made, most) << "seed " << seed;
    ours += made;
    best += most;
  }
  EXPECT_GE(static_cast<double>(ours), 0.95 * static_cast<double>(best)) << ours << " of " << best;
  RecordProperty("ours", static_cast<int>(ours));
  RecordProperty("best", static_cast<int>(best));
}

}  // namespace groups_test
}  // namespace antegrad::testing
