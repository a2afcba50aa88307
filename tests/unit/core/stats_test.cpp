#include "explain/stats.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "graphs.h"
#include "partition/default_partition.h"
#include "passes/dce.h"

namespace antegrad::testing {
namespace {

TEST(Stats, CountNodesAndBytesByOperator) {
  const GraphStats stats = graph_stats(graph_from_file("mlp.agraph"));
  EXPECT_EQ(stats.forward_nodes, 8);
  EXPECT_EQ(stats.backward_nodes, 16);
  EXPECT_EQ(stats.ops[0].op, "aten::t.default");
  EXPECT_EQ(stats.ops[0].forward, 2);
  EXPECT_EQ(stats.ops[0].backward, 3);
  EXPECT_EQ(stats.ops[0].bytes, 0);  // views make nothing
  EXPECT_EQ(stats.ops[1].op, "aten::mm.default");
  EXPECT_EQ(stats.ops[1].bytes, 16 * 32 * 4 + 4 * 32 * 4 + 32 * 8 * 4);
}

TEST(Stats, SayWhatAPartitionSavesAndWhy) {
  const PartitionStats stats =
      partition_stats(default_partition(dce(graph_from_file("mlp.agraph"))));
  EXPECT_EQ(stats.saved_bytes, 16 * 32 * 4 + 16 * 4 * 4);
  ASSERT_EQ(stats.saved.size(), 4u);
  const SavedTensor& largest = stats.saved[0];
  EXPECT_EQ(largest.value, 7);
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

}  // namespace
}  // namespace antegrad::testing
