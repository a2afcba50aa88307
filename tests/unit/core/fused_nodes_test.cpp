#include "fusion/fused_nodes.h"

#include <string>

#include <gtest/gtest.h>

#include "cost/machine.h"
#include "graph/verify.h"
#include "graphs.h"

namespace antegrad::testing {
namespace fused_nodes_test {

/// A graph with inputs %0: f32[8, 16], %1: f32[16, 16] and %2: f32[8], and these nodes and outputs.
Graph joint_of(const std::string& nodes, const std::string& outputs) {
  Graph graph = graph_of(
      "inputs\n  %0: f32[8, 16] primal argument 0\n  %1: f32[16, 16] primal argument 1\n"
      "  %2: f32[8] primal argument 2\nnodes\n" +
      nodes + "outputs\n" + outputs);
  verify(graph);
  return graph;
}

/// "0 2": the ids of fused nodes.
std::string fused(const Graph& graph) {
  std::string text;
  const std::vector<bool> found = fused_nodes(graph);
  for (size_t id = 0; id < found.size(); ++id) {
    if (found[id]) text += (text.empty() ? "" : " ") + std::to_string(id);
  }
  return text;
}

constexpr const char* kChain =
    "  %3: f32[8, 16] = aten::mul.Tensor(%0, %0)  # 0\n"
    "  %4: f32[8, 16] = aten::relu.default(%3)  # 1\n"
    "  %5: f32[8, 16] = aten::mm.default(%4, %1)  # 2\n"
    "  %6: f32[8, 16] = aten::relu.default(%5)  # 3\n";

TEST(FusedNodes, AreThoseWhoseReadersCanAllComputeThem) {
  // A product reads 1, and an output shows 3.
  EXPECT_EQ(fused(joint_of(kChain, "  %6 result\n")), "0");
}

TEST(FusedNodes, AValueThatOneReaderNeedsInMemoryIsWritten) {
  EXPECT_EQ(
      fused(joint_of(std::string(kChain) +
                         "  %7: f32[8, 16] = aten::mm.default(%3, %1)  # 4\n"
                         "  %8: f32[8, 16] = aten::add.Tensor(%5, %7, alpha=scalar(1))  # 5\n"
                         "  %9: f32[8, 16] = aten::add.Tensor(%6, %8, alpha=scalar(1))  # 6\n",
                     "  %9 result\n")),
      "3 5");
}

TEST(FusedNodes, AResultThatOutlivesItsInputIsWritten) {
  // A product runs between the uses of 3, whose input is a product too.
  const std::string nodes = std::string(kChain) +
                            "  %7: f32[8, 16] = aten::mm.default(%0, %1)  # 4\n"
                            "  %8: f32[8, 16] = aten::add.Tensor(%7, %6, alpha=scalar(1))  # 5\n";
  EXPECT_EQ(fused(joint_of(nodes, "  %8 result\n")), "0");
  // The input of 0 stays anyway.
  const std::string after = "  %9: f32[8, 16] = aten::add.Tensor(%8, %3, alpha=scalar(1))  # 6\n";
  EXPECT_EQ(fused(joint_of(nodes + after, "  %9 result\n")), "0 5");
}

TEST(FusedNodes, ReductionsOfRowsAreComputedWithWhatIsBeforeAndAfterThem) {
  EXPECT_EQ(fused(joint_of("  %3: f32[8, 16] = aten::mul.Tensor(%0, %0)  # 0\n"
                           "  %4: f32[8, 1] = aten::sum.dim_IntList(%3, [1], true, none)  # 1\n"
                           "  %5: f32[8, 16] = aten::div.Tensor(%3, %4)  # 2\n",
                           "  %5 result\n")),
            "0 1");
}

TEST(FusedNodes, ViewsAreLookedThrough) {
  EXPECT_EQ(fused(joint_of("  %3: f32[8, 16] = aten::mul.Tensor(%0, %0)  # 0\n"
                           "  %4: f32[128] &3 = aten::view.default(%3, [128])  # 1\n"
                           "  %5: f32[128] = aten::relu.default(%4)  # 2\n",
                           "  %5 result\n")),
            "0");
  EXPECT_EQ(fused(joint_of("  %3: f32[8, 16] = aten::mul.Tensor(%0, %0)  # 0\n"
                           "  %4: f32[128] &3 = aten::view.default(%3, [128])  # 1\n",
                           "  %4 result\n")),
            "");
}

TEST(FusedNodes, MoveNoMemory) {
  const Graph graph = joint_of(kChain, "  %6 result\n");
  const std::vector<double> times = fused_seconds(graph, fused_nodes(graph), "cpu");
  ASSERT_EQ(times.size(), 4);
  const int64_t bytes = 8 * 16 * 4;
  EXPECT_LT(times[0], kCpu.seconds_per_node);
  // Reads no result of the fused node.
  EXPECT_DOUBLE_EQ(times[1], seconds({node_cost(graph, graph.nodes[1]).flops, bytes}, kCpu));
  EXPECT_DOUBLE_EQ(times[3], seconds(node_cost(graph, graph.nodes[3]), kCpu));
}

TEST(FusedNodes, ReductionsTakeTheTimeOfAnotherLoop) {
  const Graph graph = joint_of(
      "  %3: f32[8, 16] = aten::mul.Tensor(%0, %0)  # 0\n"
      "  %4: f32[8, 1] = aten::sum.dim_IntList(%3, [1], true, none)  # 1\n"
      "  %5: f32[8, 16] = aten::div.Tensor(%3, %4)  # 2\n",
      "  %5 result\n");
  const std::vector<double> times = fused_seconds(graph, fused_nodes(graph), "cpu");
  EXPECT_EQ(times[0], 0);
  EXPECT_DOUBLE_EQ(times[1], (8 * 16 + 8) * 4 / kCpu.bytes_per_second);
}

TEST(FusedNodes, FunctionsAndDrawsTakeTheTimeOfComputingThem) {
  const Graph graph = joint_of(
      "  %3: f32[8, 16] = aten::tanh.default(%0)  # 0\n"
      "  %4: f32[8, 16] = prims::inductor_random.default(%2)  # 1\n"
      "  %5: f32[8, 16] = aten::mul.Tensor(%3, %4)  # 2\n",
      "  %5 result\n");
  const std::vector<double> times = fused_seconds(graph, fused_nodes(graph), "cpu");
  EXPECT_DOUBLE_EQ(times[0], 8 * 16 / kCpu.functions_per_second);
  EXPECT_DOUBLE_EQ(times[1], 8 * 16 / kCpu.draws_per_second);
}

}  // namespace fused_nodes_test
}  // namespace antegrad::testing
