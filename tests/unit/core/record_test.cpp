#include "explain/record.h"

#include <gtest/gtest.h>

#include <antegrad/error.h>

#include "explain/replay.h"
#include "graphs.h"

namespace antegrad::testing {
namespace record_test {

PartitionChoice budget_choice() {
  PartitionChoice choice;
  choice.partitioner = Partitioner::budget;
  choice.budget = {1 << 20, BudgetEffort::thorough};
  choice.machine = "gpu";
  choice.symbols = {8, 16};
  choice.budget.profile = BudgetProfile::measured;
  choice.measured.scratch = {0, 0, 512};
  choice.measured.seconds = {-1, 0.25, 0};
  choice.simplify = false;
  choice.fresh_memory = true;
  return choice;
}

TEST(Record, ComesBackFromItsText) {
  PartitionRecord record;
  record.version = "0.1.0";
  record.choice = budget_choice();
  record.saved = {1, 5, 9};
  record.recomputed = {{ValueId(3), 1}, {ValueId(4), 2}};
  record.peak = 12345;
  record.more["guards"] = {"x.size(0) == 8"};
  const PartitionRecord again = parse_record(to_text(record));
  EXPECT_EQ(again.version, "0.1.0");
  EXPECT_EQ(again.choice.partitioner, Partitioner::budget);
  EXPECT_EQ(again.choice.budget, record.choice.budget);
  EXPECT_EQ(again.choice.machine, "gpu");
  EXPECT_EQ(again.choice.symbols, record.choice.symbols);
  EXPECT_EQ(again.choice.measured.scratch, record.choice.measured.scratch);
  EXPECT_EQ(again.choice.measured.seconds, record.choice.measured.seconds);
  EXPECT_FALSE(again.choice.simplify);
  EXPECT_TRUE(again.choice.fresh_memory);
  EXPECT_EQ(again.saved, record.saved);
  EXPECT_EQ(again.recomputed, record.recomputed);
  EXPECT_EQ(again.peak, 12345);
  EXPECT_EQ(again.more, record.more);
}

TEST(Record, HasTheSettingsOfTheMinimumCut) {
  PartitionChoice choice;
  choice.partitioner = Partitioner::min_cut;
  choice.min_cut.ban_recompute_random = false;
  choice.min_cut.max_dist_from_bw = 7;
  const Graph graph = graph_from_file("reference/llama.agraph");
  const Partition partition = partition_by(graph, choice);
  const PartitionRecord record = parse_record(to_text(make_record(partition, choice)));
  EXPECT_FALSE(record.choice.min_cut.ban_recompute_random);
  EXPECT_EQ(record.choice.min_cut.max_dist_from_bw, 7);
  EXPECT_EQ(record.saved.size(), partition.plan.saved.size());
  EXPECT_FALSE(record.recomputed.empty());
  EXPECT_EQ(record.peak, simulate(partition).peak_bytes);
  EXPECT_EQ(record.version, library_version());
}

TEST(Record, ABadOneIsRefused) {
  const PartitionRecord record{"0.1.0", budget_choice(), {1}, {}, 1, nlohmann::json::object()};
  const auto with = [&](const char* field, const nlohmann::json& value) {
    auto json = nlohmann::json::parse(to_text(record));
    json[field] = value;
    return json.dump();
  };
  EXPECT_NO_THROW(parse_record(with("more", 1)));
  expect_error<GraphError>([&] { parse_record(with("partitioner", "best")); }, "best");
  expect_error<GraphError>([&] { parse_record(with("effort", 3)); }, "docs/graph-format.md");
  expect_error<GraphError>([&] { parse_record(with("recomputed", {1, 2})); }, "record");
  expect_error<GraphError>([&] { parse_record(with("seconds", {{2000000000, 1.0}})); }, "seconds");
  expect_error<GraphError>([&] { parse_record("{}"); }, "antegrad");
  expect_error<GraphError>([&] { parse_record("[]"); }, "record");
  // No integer holds these.
  for (const double number : {1e10, -1e30, 1e300}) {
    expect_error<GraphError>([&] { parse_record(with("saved", {number})); }, "out of range");
    expect_error<GraphError>([&] { parse_record(with("peak_bytes", number)); }, "out of range");
  }
}

}  // namespace record_test
}  // namespace antegrad::testing
