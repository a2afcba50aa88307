#include <gtest/gtest.h>

#include <numeric>

#include "budget_problems.h"
#include "memory/peak.h"
#include "partition/budget/emit.h"
#include "partition/budget/simulator.h"
#include "partition_checks.h"

namespace antegrad::testing {
namespace {

using budget::Change;
using budget::Choice;
using budget::Measure;
using budget::Plan;
using budget::Problem;
using budget::Simulator;

constexpr int kCases = 1500;
constexpr int kSize = 24;

/// With scratch memory here and there.
ByteRules rules_of(const Graph& graph) {
  ByteRules rules;
  for (const Node& node : graph.nodes) {
    rules.scratch.resize(std::max(rules.scratch.size(), static_cast<size_t>(node.id) + 1), 0);
    if (node.id % 3 == 0 && !node.op.traits().view)
      rules.scratch[static_cast<size_t>(node.id)] = 40 * (node.id % 5);
  }
  return rules;
}

Problem problem_with_scratch(const Graph& graph) {
  return budget::make_problem(graph, random_times(graph), rules_of(graph));
}

Choice random_choice(std::mt19937_64& random) {
  const Choice choices[] = {
      budget::kSave, budget::kSave, budget::kRecompute, budget::kRecompute, 1, 3};
  return choices[random() % std::size(choices)];
}

Plan random_plan(const Problem& problem, std::mt19937_64& random) {
  Plan plan(problem.values.size());
  for (Choice& choice : plan) choice = random_choice(random);
  return plan;
}

TEST(BudgetFuzz, WhatIsSimulatedRuns) {
  hold_for_random_graphs(kCases, kSize, [](const Graph& raw) -> std::string {
    const Graph graph = dce(raw);
    const Problem problem = problem_with_scratch(graph);
    std::mt19937_64 random(graph.nodes.size());
    Simulator simulator(problem);
    for (int i = 0; i < 4; ++i) {
      const Measure measure = simulator.set(random_plan(problem, random));
      const Partition partition = budget::emit(graph, simulator.timetable());
      if (std::string wrong = splits_wrongly(graph, partition); !wrong.empty()) return wrong;
      const int64_t peak = simulate(partition, rules_of(graph)).peak_bytes;
      if (peak != measure.peak) {
        return "the plan says " + std::to_string(measure.peak) + ", the graphs take " +
               std::to_string(peak) + "\n" + to_text(partition.forward) +
               to_text(partition.backward);
      }
      int64_t time = 0;
      std::vector<int64_t> by_id(graph.nodes.size() + 1000, 0);
      for (const budget::Operation& operation : problem.operations) {
        by_id.at(static_cast<size_t>(graph.nodes[static_cast<size_t>(operation.node)].id)) =
            operation.time;
      }
      for (const Graph* half : {&partition.forward, &partition.backward}) {
        for (const Node& node : half->nodes) time += by_id.at(static_cast<size_t>(node.id));
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
    const Problem problem = problem_with_scratch(graph);
    if (problem.values.empty()) return "";
    std::mt19937_64 random(graph.nodes.size());
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
        if (problem.is_choice(value)) changes.push_back({value, random_choice(random)});
      }
      const Measure probed = simulator.probe(changes);
      Plan changed = plan;
      for (const Change& change : changes)
        changed[static_cast<size_t>(change.value)] = change.choice;
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

}  // namespace
}  // namespace antegrad::testing
