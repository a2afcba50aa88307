#include "partition/budget/exact.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "budget_problems.h"
#include "partition/budget/bounds.h"
#include "partition/budget/simulator.h"
#include "passes/dce.h"

namespace antegrad::testing {
namespace exact_fuzz_test {

using namespace budget;

constexpr int kCases = 1200;
constexpr int kSize = 16;
constexpr size_t kMostChoices = 11;

std::string text(const Measure& m) {
  return std::to_string(m.peak) + " B, " + std::to_string(m.extra);
}
std::string text(const Bound& b) {
  return std::to_string(b.peak) + " B, " + std::to_string(b.extra);
}

/// Calls `each` with the measures of all plans without windows that agree with the decisions.
template <class Each>
void for_each_measure(const Problem& problem, const std::vector<int32_t>& open, const Plan& plan,
                      Each each) {
  Simulator simulator(problem);
  for_each_plan(open, plan, [&](const Plan& decided) { each(simulator.set(decided)); });
}

TEST(ExactFuzz, BoundsOfDecidedPlansAreWhatTheyMeasure) {
  hold_for_graphs_and_networks(kCases, 3 * kSize, [](const Graph& raw) -> std::string {
    const Graph graph = dce(raw);
    const Problem problem = problem_of(graph);
    std::mt19937_64 random(graph.nodes.size());
    Simulator simulator(problem);
    Bounds bounds(problem);
    Plan plan(problem.values.size());
    for (int i = 0; i < 8; ++i) {
      for (Choice& choice : plan) choice = random() % 2 == 0 ? kSave : kRecompute;
      const Measure measure = simulator.set(plan);
      const Bound bound = bounds.of(plan);
      // Bounds take fused values to stay once they are computed.
      const bool fuses = std::ranges::any_of(problem.values, &budget::Value::fused);
      const bool below = bound.peak <= measure.peak && bound.extra <= measure.extra;
      const bool equal = bound.peak == measure.peak && bound.extra == measure.extra;
      if (fuses ? !below : !equal) {
        return "measured " + text(measure) + ", bound " + text(bound);
      }
    }
    return "";
  });
}

std::string plan_below_bounds(const Graph& raw) {
  const Graph graph = dce(raw);
  const Problem problem = problem_of(graph);
  const std::vector<int32_t> choices = choices_of(problem);
  std::mt19937_64 random(graph.nodes.size());
  Bounds bounds(problem);
  std::string wrong;
  for (int i = 0; i < 6; ++i) {
    Plan plan(problem.values.size(), kRecompute);
    std::vector<int32_t> open;
    for (const int32_t v : choices) {
      const auto drawn = random() % 4;
      plan[v] = drawn == 0 ? kSave : drawn == 1 ? kRecompute : kOpen;
      if (drawn > 1) open.push_back(v);
    }
    while (open.size() > kMostChoices) {
      plan[open.back()] = kSave;
      open.pop_back();
    }
    int64_t low = std::numeric_limits<int64_t>::max();
    int64_t high = 0;
    for_each_measure(problem, open, plan, [&](const Measure& measure) {
      low = std::min(low, measure.peak);
      high = std::max(high, measure.peak);
    });
    const int64_t budget = low + (high - low) / static_cast<int64_t>(1 + random() % 4);
    const Bound bound = bounds.of(plan, budget);
    for_each_measure(problem, open, plan, [&](const Measure& measure) {
      if (bound.peak > measure.peak || (measure.peak <= budget && bound.extra > measure.extra)) {
        wrong = "a plan of " + text(measure) + ", bounds of " + text(bound) + " for " +
                std::to_string(budget);
      }
    });
    if (!wrong.empty()) return wrong;
  }
  return "";
}

TEST(ExactFuzz, NoPlanIsBelowItsBounds) {
  hold_for_graphs_and_networks(kCases, kSize, plan_below_bounds);
  // A value saved for a recomputed reader dies with the earliest run of that reader.
  EXPECT_EQ(plan_below_bounds(RandomGraph(11259).joint(1 + 11259 % kSize)), "");
  EXPECT_EQ(plan_below_bounds(RandomNetwork(1277).joint(1 + 1277 % kSize)), "");
}

TEST(ExactFuzz, IsTheBestOfAllPlans) {
  hold_for_graphs_and_networks(kCases, kSize, [](const Graph& raw) -> std::string {
    const Graph graph = dce(raw);
    const Problem problem = problem_of(graph);
    const std::vector<int32_t> choices = choices_of(problem);
    if (choices.size() > kMostChoices) return "";
    const Plan none(problem.values.size(), kRecompute);
    std::vector<Measure> measures;
    for_each_measure(problem, choices, none, [&](const Measure& m) { measures.push_back(m); });
    const auto smaller = [](const Measure& a, const Measure& b) { return a.peak < b.peak; };
    const auto [low, high] = std::minmax_element(measures.begin(), measures.end(), smaller);
    const ExactAnswer smallest = smallest_exactly(problem);
    if (!smallest.proven || !smallest.best) return "no smallest plan";
    if (smallest.best->peak != low->peak) {
      return "smallest peak " + std::to_string(smallest.best->peak) + ", enumerated " + text(*low);
    }
    for (int i = -1; i <= 4; ++i) {
      const int64_t budget = i < 0 ? low->peak - 1 : low->peak + (high->peak - low->peak) * i / 4;
      std::optional<int64_t> wanted;
      for (const Measure& measure : measures) {
        if (measure.peak <= budget)
          wanted = std::min(wanted.value_or(measure.extra), measure.extra);
      }
      const ExactAnswer answer = solve_exactly(problem, budget);
      if (!answer.proven) return "not proven";
      if (answer.best.has_value() != wanted.has_value()) return "a plan where there is none";
      if (!wanted) continue;
      const PlanPoint& best = *answer.best;
      Simulator simulator(problem);
      const Measure measure = simulator.set(*best.plan);
      if (best.extra != *wanted || best.peak > budget || measure.extra != best.extra ||
          measure.peak != best.peak) {
        return "for " + std::to_string(budget) + " found " + text(measure) + ", enumerated " +
               std::to_string(*wanted);
      }
      const ExactAnswer again = solve_exactly(problem, budget, {}, best);
      if (!again.proven || again.best->plan != best.plan) {
        return "something faster than the fastest";
      }
    }
    return "";
  });
}

TEST(ExactFuzz, StopsAtItsLimit) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Problem problem = problem_of(dce(RandomGraph(seed).joint(40)));
    const ExactAnswer answer = smallest_exactly(problem, {.measured = 5});
    EXPECT_LE(answer.measured, 5 + 2 * 12 + 1) << seed;
    if (choices_of(problem).size() > 8) {
      EXPECT_FALSE(answer.proven) << seed;
    }
  }
}

}  // namespace exact_fuzz_test
}  // namespace antegrad::testing
