/// \file
/// How far the answers of the frontier are from the optimum, which partition/budget/exact.h proves.

#include <algorithm>
#include <cmath>
#include <functional>
#include <iostream>
#include <limits>
#include <optional>

#include <gtest/gtest.h>

#include "budget_problems.h"
#include "cost/machine.h"
#include "explain/import_json.h"
#include "graph/verify.h"
#include "gzip/gzip.h"
#include "partition/budget/exact.h"
#include "partition/budget/frontier.h"
#include "partition/budget/simulator.h"
#include "passes/dce.h"
#include "random_packings.h"

namespace antegrad::testing {
namespace frontier_fuzz_test {

using namespace budget;

constexpr int kBudgets = 6;
constexpr double kMost = 0.05;
constexpr double kUsual = 0.02;  // for 99 of 100 budgets

/// From 1 to 256 microseconds: products take many times as long as pointwise operators.
std::vector<double> random_seconds(const Graph& graph, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<double> seconds(graph.nodes.size());
  for (double& s : seconds) s = std::exp2(static_cast<double>(random() % 800) / 100) * 1e-6;
  return seconds;
}

/// The distance of answers from the optimum, as a share of the step's time, and of the smallest
/// peak.
struct Gaps {
  std::vector<double> time;
  std::vector<double> peak;
  int unproven = 0;

  void measure(const Problem& problem, BudgetEffort effort, const std::string& name) {
    if (problem.time == 0) return;
    const Frontier frontier = build_frontier(problem, {effort, {}});
    const PlanPoint& found = frontier.archive.smallest();
    const ExactAnswer smallest = smallest_exactly(problem, {}, found);
    if (!smallest.proven) ++unproven;
    const int64_t low = smallest.best->peak;
    peak.push_back(static_cast<double>(found.peak) / static_cast<double>(low) - 1);
    EXPECT_LE(peak.back(), kMost) << name << ": smallest peak";
    for (int i = 0; i < kBudgets; ++i) {
      const int64_t budget = std::max(found.peak, low + (frontier.eager_peak - low) * i / kBudgets);
      const PlanPoint answer = frontier.archive.at_most(budget).value();
      const ExactAnswer exact = solve_exactly(problem, budget, {200'000}, answer);
      if (!exact.proven) ++unproven;
      time.push_back(static_cast<double>(answer.extra - exact.best->extra) /
                     static_cast<double>(problem.time));
      EXPECT_LE(time.back(), kMost) << name << ": budget " << budget;
    }
  }

  void expect_small(const std::string& name) {
    for (auto* gaps : {&time, &peak}) {
      std::sort(gaps->begin(), gaps->end());
      const auto percentile = [&](double p) {
        return (*gaps)[std::min(gaps->size() - 1,
                                static_cast<size_t>(p * static_cast<double>(gaps->size())))];
      };
      EXPECT_LE(percentile(0.99), kUsual) << name;
      std::cout << name << (gaps == &time ? ", time" : ", smallest peak") << ": " << gaps->size()
                << " answers, " << std::count(gaps->begin(), gaps->end(), 0.0)
                << " of them best; above the best in percent: median " << 100 * percentile(0.5)
                << ", 99 of 100 below " << 100 * percentile(0.99) << ", most " << 100 * gaps->back()
                << "; " << unproven << " not proven\n";
    }
    // Graphs without a proven optimum show nothing, so they must be few.
    EXPECT_LE(unproven, static_cast<int>(time.size()) / 20) << name;
  }
};

class FrontierFuzz : public ::testing::TestWithParam<BudgetEffort> {
 protected:
  std::string name(const std::string& graphs) const {
    return graphs + (GetParam() == BudgetEffort::quick ? ", quick" : ", thorough");
  }
  /// Thorough frontiers take a tenth of a second each.
  int graphs() const { return long_tests() ? 1000 : GetParam() == BudgetEffort::quick ? 120 : 15; }
};

TEST_P(FrontierFuzz, IsNearTheBestForRandomNetworks) {
  Gaps gaps;
  for (int seed = 0; seed < graphs(); ++seed) {
    const Graph joint = RandomNetwork(static_cast<uint64_t>(seed)).joint(5 + seed % 46);
    ASSERT_NO_THROW(verify(joint)) << seed;
    const Graph graph = dce(joint);
    gaps.measure(problem_of(graph, random_seconds(graph, static_cast<uint64_t>(seed))), GetParam(),
                 "seed " + std::to_string(seed));
  }
  gaps.expect_small(name("random networks"));
}

/// With this many values the frontier itself cannot prove optimality.
TEST_P(FrontierFuzz, IsNearTheBestForLargerNetworks) {
  Gaps gaps;
  for (int seed = 0; seed < (long_tests()                        ? 60
                             : GetParam() == BudgetEffort::quick ? 4
                                                                 : 0);
       ++seed) {
    const Graph graph = dce(RandomNetwork(static_cast<uint64_t>(seed)).joint(100 + 7 * seed % 51));
    gaps.measure(problem_of(graph, random_seconds(graph, static_cast<uint64_t>(seed))), GetParam(),
                 "seed " + std::to_string(seed));
  }
  if (!gaps.time.empty()) gaps.expect_small(name("larger networks"));
}

TEST_P(FrontierFuzz, IsNearTheBestForRandomGraphs) {
  Gaps gaps;
  for (int seed = 0; seed < graphs(); ++seed) {
    const Graph graph = dce(RandomGraph(static_cast<uint64_t>(seed)).joint(5 + seed % 56));
    gaps.measure(problem_of(graph, random_seconds(graph, static_cast<uint64_t>(seed))), GetParam(),
                 "seed " + std::to_string(seed));
  }
  gaps.expect_small(name("random graphs"));
}

TEST(FrontierEfforts, ThoroughIsNeverWorseThanQuick) {
  for (int seed = 0; seed < (long_tests() ? 200 : 10); ++seed) {
    const Graph graph = dce(RandomNetwork(static_cast<uint64_t>(seed)).joint(20 + 10 * (seed % 8)));
    const Problem problem = problem_of(graph, random_seconds(graph, static_cast<uint64_t>(seed)));
    const Frontier quick = build_frontier(problem, {BudgetEffort::quick, {}});
    const Frontier thorough = build_frontier(problem, {BudgetEffort::thorough, {}});
    for (const PlanPoint& point : quick.archive.points()) {
      EXPECT_LE(thorough.archive.at_most(point.peak)->extra, point.extra) << seed;
    }
  }
}

TEST_P(FrontierFuzz, IsNearTheBestForSmallModels) {
  Gaps gaps;
  for (const char* model :
       {"gpt1_tiny", "lstm3_tiny", "res2_tiny", "mlp2_small", "mlp3_small", "mlp4_small"}) {
    const std::string file = std::string(ANTEGRAD_TEST_DATA) + "/joint/" + model + ".json.gz";
    const Graph graph = dce(import_json(read_maybe_gzipped(file), file).graph);
    gaps.measure(problem_of(graph, node_seconds(graph, {}, "gpu")), GetParam(), model);
  }
  gaps.expect_small(name("small models"));
}

/// All choices for a value, except windows.
std::vector<Choice> ways_of(const Problem& problem, int32_t value) {
  std::vector<Choice> ways = {kRecompute, kSave};
  for (const Packing& packing : problem.choosable_packings(value)) {
    ways.push_back(packed_by(packing));
  }
  return ways;
}

/// Measures of all plans.
std::vector<Measure> all_measures(const Problem& problem, const std::vector<int32_t>& choices) {
  std::vector<Measure> measures;
  Simulator simulator(problem);
  Plan plan(problem.values.size(), kRecompute);
  const std::function<void(size_t)> decide = [&](size_t i) {
    if (i == choices.size()) {
      measures.push_back(simulator.set(plan));
      return;
    }
    for (const Choice way : ways_of(problem, choices[i])) {
      plan[choices[i]] = way;
      decide(i + 1);
    }
  };
  decide(0);
  return measures;
}

void expect_no_worse_than_without_packings(const Problem& problem, const Frontier& frontier,
                                           BudgetEffort effort) {
  Problem plain = problem;
  plain.packings.clear();
  for (budget::Value& value : plain.values) value.packing_count = 0;
  for (const PlanPoint& point : build_frontier(plain, {effort, {}}).archive.points()) {
    EXPECT_LE(frontier.archive.at_most(point.peak)->extra, point.extra);
  }
}

/// The exact solver does not support packings, so all plans of small networks are measured.
TEST_P(FrontierFuzz, IsNearTheBestWherePlansMayPack) {
  int compared = 0;
  for (int seed = 0; seed < graphs(); ++seed) {
    const Graph graph = dce(RandomNetwork(static_cast<uint64_t>(seed)).joint(3 + seed % 6));
    ByteRules rules;
    rules.granule = 1;
    const bool always = seed % 3 == 2;
    const Problem problem = make_problem(graph, random_seconds(graph, static_cast<uint64_t>(seed)),
                                         rules, random_packings(graph, rules, always));
    const std::vector<int32_t> choices = choices_of(problem);
    double count = 1;
    for (const int32_t v : choices) count *= static_cast<double>(ways_of(problem, v).size());
    if (problem.packings.empty() || count > 20'000 || problem.time == 0) continue;
    const std::vector<Measure> all = all_measures(problem, choices);
    const Frontier frontier = build_frontier(problem, {GetParam(), {}});
    if (!always) expect_no_worse_than_without_packings(problem, frontier, GetParam());
    int64_t smallest = all[0].peak;
    for (const Measure& measure : all) smallest = std::min(smallest, measure.peak);
    const int64_t found = frontier.archive.smallest().peak;
    EXPECT_LE(static_cast<double>(found), (1 + kMost) * static_cast<double>(smallest)) << seed;
    for (int i = 0; i <= kBudgets; ++i) {
      const int64_t budget =
          std::max(found, smallest + (frontier.eager_peak - smallest) * i / kBudgets);
      int64_t best = std::numeric_limits<int64_t>::max();
      for (const Measure& measure : all) {
        if (measure.peak <= budget) best = std::min(best, measure.extra);
      }
      const int64_t answer = frontier.archive.at_most(budget)->extra;
      EXPECT_LE(static_cast<double>(answer - best), kMost * static_cast<double>(problem.time))
          << "seed " << seed << ", budget " << budget;
      ++compared;
    }
  }
  EXPECT_GT(compared, graphs());
}

INSTANTIATE_TEST_SUITE_P(Efforts, FrontierFuzz,
                         ::testing::Values(BudgetEffort::quick, BudgetEffort::thorough),
                         [](const auto& info) {
                           return info.param == BudgetEffort::quick ? "Quick" : "Thorough";
                         });

}  // namespace frontier_fuzz_test
}  // namespace antegrad::testing
