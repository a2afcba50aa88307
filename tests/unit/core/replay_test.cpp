#include "explain/replay.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <antegrad/error.h>

#include "graph/graph.h"
#include "partition/budget/simulator.h"
#include "planned_graphs.h"

namespace antegrad::testing {
namespace replay_test {

/// A graph with the record of the partition that `choice` gives.
GraphFile recorded(const Graph& graph, const PartitionChoice& choice) {
  return {graph, to_text(make_record(partition_by(graph, choice), choice))};
}

PartitionChoice choice_of(Partitioner partitioner, int64_t budget = 0) {
  PartitionChoice choice;
  choice.partitioner = partitioner;
  choice.budget.bytes = budget;
  return choice;
}

TEST(Replay, EveryPartitionerDecidesTheSameAgain) {
  const Graph graph = graph_from_file("reference/llama.agraph");
  const PlannedGraph planned(graph);
  const int64_t half = planned.planner.frontier().eager_peak / 2;
  for (const PartitionChoice& choice :
       {choice_of(Partitioner::as_written), choice_of(Partitioner::min_cut),
        choice_of(Partitioner::budget, half),
        choice_of(Partitioner::budget, planned.planner.frontier().archive.smallest().peak)}) {
    // Through text, as if read from a file.
    const GraphFile file = parse_graph_file(to_text(recorded(graph, choice)));
    const Replayed replayed = replay(file);
    EXPECT_TRUE(replayed.differences.empty()) << to_text(replayed);
    EXPECT_EQ(to_text(replayed).find("same: "), 0u);
    EXPECT_EQ(replayed.now.peak, replayed.then.peak);
  }
}

TEST(Replay, APlanOfOtherSizesIsInTheRecord) {
  const Graph first = chain_graph(20), graph = chain_graph(20, 5000);
  PartitionChoice choice = choice_of(Partitioner::budget, 14 * 20480);
  choice.carry = true;
  partition_by(first, choice_of(Partitioner::budget, 14 * 16384));
  choice.carried = partition_for(PlannedGraph::prepared(graph), choice).planned->carried;
  EXPECT_FALSE(choice.carried.empty());
  const GraphFile file = parse_graph_file(to_text(recorded(graph, choice)));
  EXPECT_EQ(parse_record(file.record).choice.carried, choice.carried);
  const Replayed replayed = replay(file);
  EXPECT_TRUE(replayed.differences.empty()) << to_text(replayed);
  EXPECT_LE(replayed.now.peak, choice.budget.bytes);
  // Another plan gives another partition, so the record's plan is the one that is taken.
  PartitionRecord other = parse_record(file.record);
  other.choice.carried.pop_back();
  EXPECT_FALSE(replay({graph, to_text(other)}).differences.empty());
}

TEST(Replay, PackingsAreOfTheRecord) {
  Graph graph = graph_from_file("reference/llama.agraph");
  number_nodes(graph);
  const PlannedGraph planned(graph);
  PartitionChoice choice =
      choice_of(Partitioner::budget, planned.planner.frontier().archive.smallest().peak);
  choice.packings.ways = {"quarter"};
  for (const budget::Value& value : planned.planner.problem().values) {
    choice.packings.entries.push_back({value.id, 0, {value.bytes / 4, 1e-9, 64, 128}});
  }
  const GraphFile file = parse_graph_file(to_text(recorded(graph, choice)));
  EXPECT_TRUE(replay(file).differences.empty()) << to_text(replay(file));
  PartitionRecord other = parse_record(file.record);
  EXPECT_FALSE(other.packed.empty());
  other.packed.erase(other.packed.begin());
  EXPECT_NE(to_text(replay({graph, to_text(other)})).find("was kept as it is, is kept quarter now"),
            std::string::npos);
  other.choice.packings.entries.front().way = 3;
  EXPECT_THROW(replay({graph, to_text(other)}), GraphError);
  other.choice.packings.entries.front() = {ValueId(graph.values.size()), 0, {}};
  EXPECT_THROW(replay({graph, to_text(other)}), GraphError);
}

TEST(Replay, RatiosAndMeasuredTimesAreOfTheRecord) {
  Graph graph = graph_from_file("reference/llama.agraph");
  number_nodes(graph);
  PartitionChoice ratio = choice_of(Partitioner::min_cut);
  ratio.min_cut.activation_memory_budget = 0.4;
  ratio.min_cut.activation_memory_budget_runtime_estimator = RuntimeEstimator::profile;
  PartitionChoice timed = choice_of(
      Partitioner::budget, PlannedGraph(graph).planner.frontier().archive.smallest().peak * 5 / 4);
  timed.budget.profile = BudgetProfile::measured;
  // Times that no machine has: later nodes take longer.
  for (PartitionChoice* choice : {&ratio, &timed}) {
    for (size_t id = 0; id < graph.nodes.size(); ++id) {
      choice->measured.seconds.push_back(id % 7 == 0 ? -1 : 1e-5 * static_cast<double>(id));
    }
    const GraphFile file = parse_graph_file(to_text(recorded(graph, *choice)));
    EXPECT_TRUE(replay(file).differences.empty());
    PartitionRecord without = parse_record(file.record);
    without.choice.measured.seconds.clear();
    const Replayed replayed = replay({graph, to_text(without)});
    EXPECT_FALSE(replayed.differences.empty()) << to_text(replayed);
  }
}

TEST(Replay, TheRecordOfAPlanSaysWhatItRecomputes) {
  const PlannedGraph planned(chain_graph(12));
  const auto& smallest = planned.planner.frontier().archive.smallest();
  PartitionChoice choice = choice_of(Partitioner::budget, smallest.peak);
  const PartitionRecord record = make_record(planned.planner.partition(smallest), choice);
  EXPECT_EQ(record.peak, smallest.peak);
  budget::Simulator simulator(planned.planner.problem());
  simulator.set(*smallest.plan);
  std::map<ValueId, int64_t> runs;
  for (const budget::Value& value : planned.planner.problem().values) {
    if (planned.planner.problem().operation(value.maker).backward) continue;
    const auto again = static_cast<int64_t>(simulator.timetable().runs(value.maker).size());
    if (again > 0) runs[value.id] = again;
  }
  EXPECT_FALSE(runs.empty());
  EXPECT_EQ(record.recomputed, runs);
}

TEST(Replay, NamesEachDecisionThatChanged) {
  const Graph graph = graph_from_file("reference/llama.agraph");
  const GraphFile file = recorded(graph, choice_of(Partitioner::min_cut));
  PartitionRecord changed = parse_record(file.record);
  const ValueId unsaved = changed.saved.back();
  const ValueId fewer = changed.recomputed.begin()->first;
  changed.saved.pop_back();
  changed.saved.push_back(1 << 19);
  changed.recomputed[fewer] += 2;
  changed.peak += 64;
  changed.version = "0.0.1";
  const Replayed replayed = replay({graph, to_text(changed)});
  ASSERT_EQ(replayed.differences.size(), 4u) << to_text(replayed);
  const std::string text = to_text(replayed);
  for (const std::string& part :
       {std::string("recorded by version 0.0.1"), std::string("4 differences in llama"),
        std::string("%524288, which the graph does not have: was saved, is not now"),
        fmt::format("%{} ", unsaved), std::string(": is saved now, was not"),
        fmt::format("%{} ", fewer), std::string(": was recomputed 3 times, is 1 times now"),
        std::string("the peak was ")}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in\n" << text;
  }
}

TEST(Replay, OtherOptionsGiveOtherDecisions) {
  const Graph graph = graph_from_file("reference/llama.agraph");
  PartitionRecord record = parse_record(recorded(graph, choice_of(Partitioner::min_cut)).record);
  record.choice.min_cut.aggressive_recomputation = true;
  EXPECT_FALSE(replay({graph, to_text(record)}).differences.empty());
}

TEST(Replay, ThereMustBeARecordAndAJointGraph) {
  const Graph graph = graph_from_file("mlp.agraph");
  expect_error<GraphError>([&] { replay({graph, ""}); }, "a graph file that ends with a record");
  const PartitionChoice choice = choice_of(Partitioner::as_written);
  GraphFile file = recorded(graph, choice);
  file.graph = partition_by(graph, choice).forward;
  expect_error<GraphError>([&] { replay(file); }, "a joint graph");
  PartitionChoice other = choice_of(Partitioner::budget, 1 << 20);
  other.machine = "abacus";
  expect_error<OptionError>([&] { partition_by(graph, other); }, "abacus");
  other.machine = "";
  other.budget.bytes = 1;
  EXPECT_THROW(partition_by(graph, other), BudgetError);
}

}  // namespace replay_test
}  // namespace antegrad::testing
