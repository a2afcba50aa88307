#include "explain/stats.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "graphs.h"
#include "partition/default_partition.h"
#include "passes/dce.h"

namespace antegrad::testing {
namespace stats_test {

TEST(Stats, CountNodesAndBytesByOperator) {
  const GraphStats stats = graph_stats(graph_from_file("mlp.agraph"));
  EXPECT_EQ(stats.forward_nodes, 8);
  EXPECT_EQ(stats.backward_nodes, 16);
  EXPECT_EQ(stats.ops[0].op, "aten::t.default");
  EXPECT_EQ(stats.ops[0].forward, 2);
  EXPECT_EQ(stats.ops[0].backward, 3);
  EXPECT_EQ(stats.ops[0].bytes, 0);  // views allocate nothing
  EXPECT_EQ(stats.ops[1].op, "aten::mm.default");
  EXPECT_EQ(stats.ops[1].bytes, 16 * 32 * 4 + 4 * 32 * 4 + 32 * 8 * 4);
}

TEST(Stats, SayWhatAPartitionSavesAndWhy) {
  const PartitionStats stats =
      partition_stats(default_partition(dce(graph_from_file("mlp.agraph"))));
  EXPECT_EQ(stats.saved_bytes, 16 * 32 * 4 + 16 * 4 * 4);
  ASSERT_EQ(stats.saved.size(), 4u);
  const SavedTensor& largest = stats.saved[0];
  EXPECT_EQ(largest.value, ValueId(7));
  EXPECT_EQ(largest.made_by, "aten::relu.default");
  EXPECT_EQ(largest.why, "intermediate");
  EXPECT_EQ(stats.saved[3].made_by, "2.weight");
  EXPECT_EQ(stats.saved[3].bytes, 0);
  EXPECT_EQ(stats.peak_op, "aten::threshold_backward.default");
}

TEST(Stats, TextAndJsonSayTheSame) {
  const ByteRules rules{{8}, 0};
  const Graph graph = graph_from_file("views.agraph");
  GraphStats stats = graph_stats(graph, rules);
  EXPECT_FALSE(to_json(stats).contains("default_partition"));
  stats.partition = partition_stats(default_partition(graph), rules);
  const nlohmann::json json = to_json(stats);
  EXPECT_EQ(json["default_partition"]["saved_bytes"], 192);
  EXPECT_EQ(json["ops"].size(), stats.ops.size());
  const std::string text = to_text(stats);
  EXPECT_NE(text.find("saved 192 B"), std::string::npos) << text;
  EXPECT_NE(text.find("aten::split.Tensor"), std::string::npos);
}

TEST(Stats, SayWhichNodesWouldBeOneKernel) {
  const Graph graph = graph_of(
      "inputs\n  %0: f32[8] primal argument 0\nnodes\n"
      "  %1: f32[8] = aten::neg.default(%0)\n  %2: f32[8] = aten::neg.default(%1)\n"
      "  %3: f32[8] = aten::exp.default(%2)\n  %4: f32[] = aten::dot.default(%3, %3)\n"
      "outputs\n  %4 result\n");
  GraphStats stats = graph_stats(graph);
  EXPECT_FALSE(to_json(stats).contains("fusion"));
  stats.fusion = fusion_stats(graph);
  EXPECT_EQ(stats.fusion->kernels, 2);
  EXPECT_EQ(stats.fusion->generated, 1);
  EXPECT_EQ(stats.fusion->bytes_vanished, 2 * 32);
  EXPECT_EQ(stats.fusion->bytes, 2 * 32 + 32 + 4);
  EXPECT_EQ(stats.fusion->bytes_unfused, 3 * 2 * 32 + 32 + 4);
  ASSERT_EQ(stats.fusion->largest.size(), 1u);
  EXPECT_EQ(stats.fusion->largest[0].text, "aten::neg 2x, aten::exp");
  EXPECT_EQ(to_json(stats)["fusion"]["largest"][0]["bytes_read"], 32);
  EXPECT_NE(to_text(stats).find("aten::neg 2x, aten::exp"), std::string::npos);
}

}  // namespace stats_test
}  // namespace antegrad::testing
