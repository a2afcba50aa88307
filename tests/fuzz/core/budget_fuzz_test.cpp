#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <set>

#include "budget_problems.h"
#include "memory/peak.h"
#include "partition/budget/emit.h"
#include "partition/budget/simulator.h"
#include "partition_checks.h"
#include "random_packings.h"

namespace antegrad::testing {
namespace budget_fuzz_test {

using budget::Change;
using budget::Choice;
using budget::Measure;
using budget::Plan;
using budget::Problem;
using budget::Simulator;

constexpr int kCases = 1500;
constexpr int kSize = 24;

/// Nothing is packed, plans may pack, or all saved values are packed.
constexpr int kForms = 3;

/// Some nodes have scratch memory. Some are fused if nothing is packed.
ByteRules rules_of(const Graph& graph, int form) {
  ByteRules rules;
  if (form == 0) rules.fused = random_fused(graph);
  for (const Node& node : graph.nodes) {
    rules.scratch.resize(std::max(rules.scratch.size(), static_cast<size_t>(node.id) + 1), 0);
    if (node.id % 3 == 0 && !node.op.traits().view) rules.scratch[node.id] = 40 * (node.id % 5);
  }
  return rules;
}

Problem problem_with_scratch(const Graph& graph, int form) {
  const ByteRules rules = rules_of(graph, form);
  return budget::make_problem(graph, random_times(graph), rules,
                              form == 0 ? Packings() : random_packings(graph, rules, form == 2),
                              kSecondsPerByte);
}

Choice random_choice(const Problem& problem, int32_t value, std::mt19937_64& random) {
  const Choice choices[] = {budget::kSave,
                            budget::kSave,
                            budget::kFirstPacking,
                            budget::kRecompute,
                            1,
                            budget::kFirstPacking + 1,
                            budget::kRecompute,
                            3};
  const Choice choice = choices[random() % std::size(choices)];
  const bool is_there =
      !budget::is_packing(choice) || budget::packing_of(problem, value, choice) >= 0;
  return is_there ? choice : budget::kSave;
}

Plan random_plan(const Problem& problem, std::mt19937_64& random) {
  Plan plan(problem.values.size());
  for (size_t v = 0; v < plan.size(); ++v) {
    plan[v] = random_choice(problem, static_cast<int32_t>(v), random);
  }
  return plan;
}

/// The packing of each packed value, by value of the graph.
std::map<ValueId, int> packed_by(const Problem& problem, const Plan& plan) {
  std::map<ValueId, int> packed;
  for (int32_t v = 0; v < static_cast<int32_t>(problem.values.size()); ++v) {
    const budget::Value& value = problem.value(v);
    if (value.result) continue;
    const Choice choice = value.always_saved ? budget::kSave : plan[v];
    const int32_t packing = budget::packing_of(problem, v, choice);
    if (packing >= 0) packed[value.id] = problem.packing(packing).way;
  }
  return packed;
}

/// Of the nodes that run. In the backward a fused one counts once for each loop.
int64_t time_of(const Graph& graph, const Problem& problem, const Partition& partition) {
  std::map<int32_t, int32_t> operations;  // by Node::id
  for (size_t o = 0; o < problem.operations.size(); ++o) {
    operations[graph.nodes[problem.operations[o].node].id] = static_cast<int32_t>(o);
  }
  int64_t time = 0;
  for (const Node& node : partition.forward.nodes) {
    const auto it = operations.find(node.id);
    if (it != operations.end()) time += problem.operation(it->second).time;
  }
  std::vector<int32_t> again;  // since the last node that only the backward runs
  std::set<std::pair<int32_t, int32_t>> computed;
  const auto end_slot = [&](int32_t loop) {
    for (const int32_t o : again) {
      if (!problem.is_fused(o) || computed.insert({o, loop}).second)
        time += problem.operation(o).time;
    }
    again.clear();
  };
  for (const Node& node : partition.backward.nodes) {
    const auto it = operations.find(node.id);
    if (it == operations.end()) continue;
    again.push_back(it->second);
    if (it->second < problem.forward_count) continue;
    again.pop_back();
    time += problem.operation(it->second).time;
    end_slot(problem.loops[it->second - problem.forward_count]);
  }
  end_slot(-1);
  for (const budget::Value& value : problem.values) {
    const bool saved = std::ranges::any_of(
        partition.plan.saved, [&](const SavedSlot& slot) { return slot.value == value.id; });
    if (saved) time += value.saving_time;
  }
  return time;
}

TEST(BudgetFuzz, WhatIsSimulatedRuns) {
  hold_for_random_graphs(kCases, kSize, [](const Graph& raw) -> std::string {
    const Graph graph = dce(raw);
    std::mt19937_64 random(graph.nodes.size());
    for (int i = 0; i < 2 * kForms; ++i) {
      const Problem problem = problem_with_scratch(graph, i % kForms);
      Simulator simulator(problem);
      const Measure measure = simulator.set(random_plan(problem, random));
      Partition partition = budget::emit(graph, simulator.timetable());
      if (std::string wrong = splits_wrongly(graph, partition); !wrong.empty()) return wrong;
      int64_t time = time_of(graph, problem, partition);
      time += pack(partition, packed_by(problem, simulator.plan()));
      const int64_t peak = simulate(partition, rules_of(graph, i % kForms)).peak_bytes;
      if (peak != measure.peak) {
        return "the plan says " + std::to_string(measure.peak) + ", the graphs take " +
               std::to_string(peak) + "\n" + to_text(partition.forward) +
               to_text(partition.backward);
      }
      if (time != problem.time + measure.extra) {
        return "the plan takes " + std::to_string(problem.time + measure.extra) + ", the graphs " +
               std::to_string(time);
      }
    }
    return "";
  });
}

bool same(const Measure& a, const Measure& b) {
  return a.peak == b.peak && a.extra == b.extra && a.excess == b.excess;
}

std::string text(const Measure& measure) {
  return std::to_string(measure.peak) + " B, " + std::to_string(measure.extra) + " ps, " +
         std::to_string(measure.excess) + " over";
}

TEST(BudgetFuzz, ChangesMeasureAsPlansMadeAnew) {
  hold_for_random_graphs(kCases, 2 * kSize, [](const Graph& raw) -> std::string {
    const Graph graph = dce(raw);
    std::mt19937_64 random(graph.nodes.size());
    const Problem problem = problem_with_scratch(graph, static_cast<int>(random() % kForms));
    if (problem.values.empty()) return "";
    Simulator simulator(problem);
    Simulator anew(problem);
    Plan plan = random_plan(problem, random);
    simulator.set_budget(3000);
    anew.set_budget(3000);
    simulator.set(plan);
    for (int i = 0; i < 20; ++i) {
      std::vector<Change> changes;
      for (size_t k = 0; k <= random() % 3; ++k) {
        const auto value = static_cast<int32_t>(random() % problem.values.size());
        if (!problem.is_choice(value)) continue;
        changes.push_back({value, random_choice(problem, value, random)});
      }
      const Measure probed = simulator.probe(changes);
      Plan changed = plan;
      for (const Change& change : changes) changed[change.value] = change.choice;
      const Measure wanted = anew.set(changed);
      if (!same(probed, wanted)) return "probed " + text(probed) + ", made anew " + text(wanted);
      if (i % 2 == 0) continue;
      const Measure applied = simulator.apply(changes);
      if (!same(applied, wanted)) return "applied " + text(applied) + ", made anew " + text(wanted);
      plan = changed;
    }
    return "";
  });
}

}  // namespace budget_fuzz_test
}  // namespace antegrad::testing
