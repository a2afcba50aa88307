/// \file
/// How far the frontier's answers are from the best ones, which partition/budget/exact.h proves.

#include <algorithm>
#include <cmath>
#include <iostream>
#include <optional>

#include <gtest/gtest.h>

#include "budget_problems.h"
#include "explain/import_json.h"
#include "fusion/cost.h"
#include "graph/verify.h"
#include "partition/budget/exact.h"
#include "partition/budget/frontier.h"
#include "passes/dce.h"

namespace antegrad::testing {
namespace {

using namespace budget;

constexpr int kBudgets = 6;
constexpr double kMost = 0.05;
constexpr double kUsual = 0.02;  // for 99 of 100 budgets

/// From one to 256 microseconds: products take many times as long as what is pointwise.
std::vector<double> random_seconds(const Graph& graph, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<double> seconds(graph.nodes.size());
  for (double& s : seconds) s = std::exp2(static_cast<double>(random() % 800) / 100) * 1e-6;
  return seconds;
}

/// Shares of the step's time that answers lie above the best ones, and of the smallest peak.
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
    // Where nothing is proven nothing is shown.
    EXPECT_LE(unproven, static_cast<int>(time.size()) / 20) << name;
  }
};

class FrontierFuzz : public ::testing::TestWithParam<BudgetEffort> {
 protected:
  std::string name(const std::string& graphs) const {
    return graphs + (GetParam() == BudgetEffort::quick ? ", quick" : ", thorough");
  }
  /// Thorough frontiers take a tenth of a second each.
  int graphs() const { return long_run() ? 1000 : GetParam() == BudgetEffort::quick ? 120 : 15; }
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

/// With so many values to decide the frontier proves nothing itself.
TEST_P(FrontierFuzz, IsNearTheBestForLargerNetworks) {
  Gaps gaps;
  for (int seed = 0; seed < (long_run() ? 60 : GetParam() == BudgetEffort::quick ? 4 : 0); ++seed) {
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

TEST_P(FrontierFuzz, IsNearTheBestForSmallModels) {
  Gaps gaps;
  for (const char* model :
       {"gpt1_tiny", "lstm3_tiny", "res2_tiny", "mlp2_small", "mlp3_small", "mlp4_small"}) {
    const std::string file = std::string(ANTEGRAD_TEST_DATA) + "/joint/" + model + ".json.gz";
    const Graph graph = dce(import_json(read_maybe_gzipped(file), file).graph);
    std::vector<double> times;
    for (const Node& node : graph.nodes) times.push_back(seconds(node_cost(graph, node), kGpu));
    gaps.measure(problem_of(graph, times), GetParam(), model);
  }
  gaps.expect_small(name("small models"));
}

INSTANTIATE_TEST_SUITE_P(Efforts, FrontierFuzz,
                         ::testing::Values(BudgetEffort::quick, BudgetEffort::thorough),
                         [](const auto& info) {
                           return info.param == BudgetEffort::quick ? "Quick" : "Thorough";
                         });

}  // namespace
}  // namespace antegrad::testing
