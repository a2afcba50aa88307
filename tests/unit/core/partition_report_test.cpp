#include "explain/partition_report.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "graphs.h"
#include "partition/default_partition.h"
#include "partition/min_cut.h"

namespace antegrad::testing {
namespace partition_report_test {

class Report : public ::testing::Test {
 protected:
  const Graph graph = graph_of(R"(inputs
  %0: f32[64, 64] primal parameter "w" grad
  %1: f32[64, 64] primal argument 0
  %9: f32[] tangent 0
nodes
  %2: f32[64, 64] = aten::mm.default(%0, %1)
  %3: f32[64, 64] = aten::sigmoid.default(%2)
  %4: f32[64, 64]{1, 64} &3 = aten::t.default(%3)
  %5: f32[] = aten::sum.default(%4, none)
backward
  %6: f32[64, 64]{1, 64} = aten::mul.Tensor(%9, %4)
  %7: f32[64, 64] = aten::mul.Tensor(%6, %0)
outputs
  %5 result
  %7 gradient 0
)");
  const PartitionReport report = partition_report(min_cut_partition(graph), "ours");
  const PartitionReport other = partition_report(default_partition(graph), "other");
};

TEST_F(Report, HasEachValueWithItsRuleAndBytes) {
  ASSERT_EQ(report.values.size(), 4u);
  EXPECT_EQ(report.values[0].made_by, "w");
  EXPECT_EQ(report.values[0].bytes, 0);
  EXPECT_EQ(report.values[1].value, ValueId(2));
  EXPECT_TRUE(report.values[1].saved);
  EXPECT_EQ(report.values[1].rule, "compute_intensive");
  EXPECT_EQ(report.values[1].bytes, 16384);
  EXPECT_EQ(report.values[2].value, ValueId(3));
  EXPECT_FALSE(report.values[2].saved);
  EXPECT_EQ(report.values[2].made_by, "aten::sigmoid.default");
  EXPECT_EQ(report.values[2].bytes, 16384);
  EXPECT_EQ(report.values[3].rule, "view");
  EXPECT_EQ(report.values[3].bytes, 0);
  EXPECT_EQ(report.recomputed_nodes, 2);
}

TEST_F(Report, SumsUpByRule) {
  ASSERT_EQ(report.rules.size(), 4u);
  EXPECT_EQ(report.rules[1].rule, "compute_intensive");
  EXPECT_EQ(report.rules[1].saved, 1);
  EXPECT_EQ(report.rules[1].saved_bytes, 16384);
  EXPECT_EQ(report.rules[2].rule, "minimum_cut");
  EXPECT_EQ(report.rules[2].computed, 1);
  EXPECT_EQ(report.saved_bytes, 16384);
}

TEST_F(Report, TextAndJsonSayTheSame) {
  const std::string text = to_text(report, other);
  EXPECT_NE(text.find("ours: 4 forward and 4 backward nodes, 2 of them recomputed"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("saved 16.0 KiB (other: 16.0 KiB)"), std::string::npos) << text;
  EXPECT_NE(text.find("compute_intensive"), std::string::npos);
  const nlohmann::json json = to_json(report, other);
  EXPECT_EQ(json["saved_bytes"], 16384);
  EXPECT_EQ(json["other"]["saved_bytes"], 16384);
  EXPECT_EQ(json["values"].size(), 4u);
  EXPECT_EQ(json["values"][2]["saved"], false);
  EXPECT_EQ(json["rules"][1]["rule"], "compute_intensive");
}

}  // namespace partition_report_test
}  // namespace antegrad::testing
