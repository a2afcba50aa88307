#include "explain/exported_plan.h"

#include <set>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <antegrad/error.h>

#include "explain/record.h"
#include "explain/replay.h"
#include "graph/parse.h"

namespace antegrad::testing {
namespace exported_plan_test {

using nlohmann::json;

json tensor(int64_t size) { return json::array({nullptr, json::array({size}), "float32", "cpu"}); }

json matrix() { return json::array({nullptr, json::array({1024, 1024}), "float32", "cpu"}); }

json input(const std::string& name, const std::string& kind) {
  return {{"n", name},
          {"k", kind},
          {"op", "placeholder"},
          {"in", json::array()},
          {"o", json::array({tensor(1024)})}};
}

json call(const std::string& op, const std::vector<int>& in, bool backward) {
  return {{"n", op},  {"k", "op"},      {"op", op},
          {"in", in}, {"bw", backward}, {"o", json::array({tensor(1024)})}};
}

/// x -> draw -> probe -> sin -> sin -> sin, and the backward of each.
json chain() {
  json nodes = {input("x", "primal"), input("t", "tangent")};
  json draw = call("aten.bernoulli.default", {0}, false);
  draw["tags"] = {"rnd"};
  nodes.push_back(draw);                                    // 2
  nodes.push_back(call("mine.probe.default", {2}, false));  // 3
  nodes.push_back(call("aten.sin.default", {3}, false));    // 4
  nodes.push_back(call("aten.sin.default", {4}, false));    // 5
  nodes.push_back(call("aten.sin.default", {5}, false));    // 6
  nodes.push_back(call("aten.mul.Tensor", {1, 6}, true));   // 7
  nodes.push_back(call("aten.mul.Tensor", {7, 5}, true));   // 8
  nodes.push_back(call("aten.mul.Tensor", {8, 4}, true));   // 9
  nodes.push_back(call("aten.mul.Tensor", {9, 3}, true));   // 10
  nodes.push_back(call("aten.mul.Tensor", {10, 2}, true));  // 11
  nodes.push_back(call("aten.sum.default", {6}, false));    // 12
  return {{"name", "chain"}, {"params", 0},    {"nodes", nodes},
          {"fw_out", {12}},  {"bw_out", {11}}, {"tangent_of", {0}}};
}

json plan(const PartitionChoice& choice) {
  return json::parse(plan_exported(chain().dump(), choice, ExportedKernels::one_by_one));
}

std::multiset<int> runs_again(const json& plan) {
  const auto forward = plan.at("forward").get<std::set<int>>();
  std::multiset<int> again;
  for (const json& node : plan.at("backward")) {
    if (forward.contains(node.at("node"))) again.insert(node.at("node").get<int>());
  }
  return again;
}

std::set<int> saved(const json& plan) {
  std::set<int> nodes;
  for (const json& pair : plan.at("saved")) nodes.insert(pair.at(1).get<int>());
  return nodes;
}

TEST(ExportedPlan, SaysWhatIsSavedAndWhatRunsAgain) {
  const json all = plan({.partitioner = Partitioner::as_written});
  EXPECT_EQ(saved(all), (std::set<int>{2, 3, 4, 5, 6}));
  EXPECT_TRUE(runs_again(all).empty());
  PartitionChoice choice{.partitioner = Partitioner::budget};
  choice.budget.share = 0;
  const json least = plan(choice);
  EXPECT_FALSE(runs_again(least).empty());
  EXPECT_LT(least.at("peak_bytes"), all.at("peak_bytes"));
}

TEST(ExportedPlan, DrawsAndUnknownOperatorsRunOnce) {
  PartitionChoice budget{.partitioner = Partitioner::budget};
  budget.budget.share = 0;
  PartitionChoice ratio{.partitioner = Partitioner::min_cut};
  ratio.min_cut.activation_memory_budget = 0;
  PartitionChoice lifted{.partitioner = Partitioner::min_cut};
  lifted.min_cut.ban_recompute_random = false;
  for (const PartitionChoice& choice : {budget, ratio, lifted}) {
    const auto again = runs_again(plan(choice));
    EXPECT_FALSE(again.contains(2));
    EXPECT_FALSE(again.contains(3));
  }
}

TEST(ExportedPlan, DrawsAndUnknownOperatorsInCheckpointsRunOnce) {
  json tagged = chain();
  for (const int node : {2, 3, 4, 5}) {
    tagged["nodes"][node]["recompute"] = "prefer_recompute";
    tagged["nodes"][node]["block"] = 0;
  }
  for (const Partitioner partitioner : {Partitioner::as_written, Partitioner::min_cut}) {
    const auto again = runs_again(json::parse(
        plan_exported(tagged.dump(), {.partitioner = partitioner}, ExportedKernels::one_by_one)));
    EXPECT_FALSE(again.contains(2));
    EXPECT_FALSE(again.contains(3));
  }
}

struct MatrixCall {
  std::string op;
  std::vector<int> in;
  bool backward;
};

/// Nodes 0, 1 and 2 are x, a weight and a tangent; the calls follow.
json matrices(const std::string& name, const std::vector<MatrixCall>& calls, int result,
              const std::vector<int>& gradients) {
  json nodes = {input("x", "primal"), input("w", "primal"), input("t", "tangent")};
  for (const auto& [op, in, backward] : calls) nodes.push_back(call(op, in, backward));
  for (json& node : nodes) node["o"] = json::array({matrix()});
  return {{"name", name},       {"params", 1},         {"nodes", nodes},
          {"fw_out", {result}}, {"bw_out", gradients}, {"tangent_of", {0}}};
}

/// x -> mm -> abs -> relu -> mm. The backward reads the result of abs for the gradient of a weight,
/// which nothing else reads, and after it in the gradient of abs.
json layer() {
  const std::vector<MatrixCall> calls = {
      {"aten.mm.default", {0, 1}, false},  // 3
      {"aten.abs.default", {3}, false},    // 4
      {"aten.relu.default", {4}, false},   // 5
      {"aten.mm.default", {5, 1}, false},  // 6
      {"aten.mm.default", {2, 1}, true},   // 7
      {"aten.neg.default", {4}, true},     // 8
      {"aten.mm.default", {2, 8}, true},   // 9
      {"aten.mul.Tensor", {7, 4}, true},   // 10
      {"aten.mm.default", {10, 1}, true},  // 11
  };
  return matrices("layer", calls, 6, {11, 9});
}

TEST(ExportedPlan, LoopsShareRunsAcrossAKernelThatCanWait) {
  PartitionChoice choice{.partitioner = Partitioner::budget};
  choice.budget.share = 0;
  const auto runs_of_abs = [&](ExportedKernels kernels) {
    return runs_again(json::parse(plan_exported(layer().dump(), choice, kernels))).count(4);
  };
  EXPECT_EQ(runs_of_abs(ExportedKernels::generated), 1);
  EXPECT_EQ(runs_of_abs(ExportedKernels::generated_in_order), 2);
}

/// x -> mm -> abs -> mm -> abs -> mm. The backward reads the results of both abs and what they
/// read.
json two_layers() {
  const std::vector<MatrixCall> calls = {
      {"aten.mm.default", {0, 1}, false},  // 3
      {"aten.abs.default", {3}, false},    // 4
      {"aten.mm.default", {4, 1}, false},  // 5
      {"aten.abs.default", {5}, false},    // 6
      {"aten.mm.default", {6, 1}, false},  // 7
      {"aten.mm.default", {2, 1}, true},   // 8
      {"aten.mul.Tensor", {8, 6}, true},   // 9
      {"aten.mul.Tensor", {9, 5}, true},   // 10
      {"aten.mm.default", {10, 1}, true},  // 11
      {"aten.mul.Tensor", {11, 4}, true},  // 12
      {"aten.mul.Tensor", {12, 3}, true},  // 13
      {"aten.mm.default", {13, 1}, true},  // 14
  };
  return matrices("two_layers", calls, 7, {14, -1});
}

/// The allocator of the CPU returns memory to the system, and abs takes less time than page faults.
TEST(ExportedPlan, CountsThePageFaultsOfGeneratedCode) {
  PartitionChoice choice{.partitioner = Partitioner::budget};
  choice.budget.share = 1;
  const auto runs_of_abs = [&](const std::string& device, ExportedKernels kernels) {
    json exported = two_layers();
    for (json& node : exported["nodes"]) node["o"][0][3] = device;
    return runs_again(json::parse(plan_exported(exported.dump(), choice, kernels))).count(4);
  };
  EXPECT_EQ(runs_of_abs("cpu", ExportedKernels::generated), 1);
  EXPECT_EQ(runs_of_abs("cuda:0", ExportedKernels::generated), 0);
  EXPECT_EQ(runs_of_abs("cpu", ExportedKernels::one_by_one), 0);
}

TEST(ExportedPlan, ItsGraphFileReplays) {
  PartitionChoice choice{.partitioner = Partitioner::budget};
  for (const double share : {0.5, 1.0}) {
    choice.budget.share = share;
    for (const auto kernels : {ExportedKernels::one_by_one, ExportedKernels::generated}) {
      const json plan = json::parse(plan_exported(two_layers().dump(), choice, kernels));
      const GraphFile file = parse_graph_file(plan.at("graph").get<std::string>(), "plan");
      EXPECT_TRUE(replay(file).differences.empty());
    }
  }
}

TEST(ExportedPlan, WhatCannotBePlannedIsRefused) {
  json none = chain();
  none["bw_out"] = {-1};
  EXPECT_THROW(plan_exported(none.dump(), {}, ExportedKernels::one_by_one), GraphError);
  EXPECT_THROW(plan_exported("{}", {}, ExportedKernels::one_by_one), GraphError);
  PartitionChoice choice{.partitioner = Partitioner::budget};
  choice.budget.bytes = 1;
  EXPECT_THROW(plan(choice), BudgetError);
  choice.budget.bytes = 0;
  EXPECT_THROW(plan(choice), OptionError);
}

}  // namespace exported_plan_test
}  // namespace antegrad::testing
