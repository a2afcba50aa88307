#include "partition/budget/carry.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include <antegrad/error.h>

#include "partition/budget/bounds.h"
#include "partition/budget/simulator.h"

namespace antegrad::budget {
namespace {

/// Carried plans may have a smallest peak this much farther from the bound.
constexpr double kFarther = 1.1;

double distance(const Frontier& frontier) {
  return static_cast<double>(frontier.archive.smallest().peak) /
         static_cast<double>(std::max<int64_t>(frontier.floor, 1));
}

/// The record without bytes and times.
Value structure(Value value) {
  value.bytes = value.saving_time = 0;
  return value;
}
Operation structure(Operation operation) {
  operation.time = operation.state_bytes = operation.scratch = 0;
  return operation;
}
Packing structure(Packing packing) { return {.way = packing.way}; }

template <class T>
bool same_structures(const std::vector<T>& a, const std::vector<T>& b) {
  return std::ranges::equal(a, b,
                            [](const T& x, const T& y) { return structure(x) == structure(y); });
}

/// Whether a plan may decide so about a value.
bool is_possible(const Problem& problem, int32_t value, Choice choice) {
  if (!problem.is_choice(value) || choice == kOpen) return false;
  return !is_packing(choice) || packing_of(problem, value, choice) >= 0;
}

}  // namespace

bool same_structure(const Problem& a, const Problem& b) {
  return a.forward_count == b.forward_count && a.reads == b.reads && a.makes == b.makes &&
         same_structures(a.values, b.values) && same_structures(a.operations, b.operations) &&
         same_structures(a.packings, b.packings);
}

Frontier frontier_of_plans(const Problem& problem, std::span<const Plan> plans) {
  Frontier frontier;
  frontier.floor = peak_floor(problem);
  Simulator simulator(problem);
  const auto offer = [&](const Plan& plan) {
    const Measure measure = simulator.set(plan);
    frontier.archive.offer(measure, plan);
    ++frontier.measured;
    return measure.peak;
  };
  frontier.eager_peak = offer(eager_plan(problem));
  for (const Plan& plan : plans) offer(plan);
  frontier.work = simulator.work();
  return frontier;
}

std::optional<Frontier> carried_frontier(const Problem& problem, const Frontier& other) {
  std::vector<Plan> plans;
  for (const PlanPoint& point : other.archive.points()) plans.push_back(*point.plan);
  Frontier frontier = frontier_of_plans(problem, plans);
  if (distance(frontier) > kFarther * distance(other)) return std::nullopt;
  return frontier;
}

Decisions decisions_of(const Problem& problem, const Plan& plan) {
  Decisions decisions;
  for (int32_t v = 0; v < static_cast<int32_t>(plan.size()); ++v) {
    if (problem.is_choice(v) && plan[v] != kRecompute) {
      decisions.emplace_back(problem.value(v).id, plan[v]);
    }
  }
  return decisions;
}

Plan plan_of(const Problem& problem, const Decisions& decisions) {
  std::map<ValueId, int32_t> values;
  for (int32_t v = 0; v < static_cast<int32_t>(problem.values.size()); ++v) {
    values.emplace(problem.value(v).id, v);
  }
  Plan plan(problem.values.size(), kRecompute);
  for (const auto& [id, choice] : decisions) {
    const auto it = values.find(id);
    if (it == values.end() || !is_possible(problem, it->second, choice)) {
      throw GraphError(ErrorText{"a plan whose decisions fit the graph",
                                 fmt::format("decision {} about %{}", choice, id), ""});
    }
    plan[it->second] = choice;
  }
  return plan;
}

}  // namespace antegrad::budget
