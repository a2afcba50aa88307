#include "partition/budget/frontier_cache.h"

#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "planned_graphs.h"

namespace antegrad::testing {
namespace budget_frontier_cache_test {

using namespace budget;

Problem problem_of(int layers, int64_t size = 4096) {
  const Graph graph = PlannedGraph::prepared(chain_graph(layers, size));
  return make_problem(graph, node_seconds(graph));
}

TEST(FrontierCache, GivesTheSameOneForTheSameProblem) {
  const auto first = frontier_of(problem_of(9), {});
  EXPECT_EQ(frontier_of(problem_of(9), {}), first);
  EXPECT_NE(frontier_of(problem_of(9), {BudgetEffort::thorough, {}}), first);
  Problem slower = problem_of(9);
  slower.operations[3].time += 1;
  EXPECT_NE(frontier_of(slower, {}), first);
  Problem larger = problem_of(9);
  larger.values[2].bytes += 64;
  EXPECT_NE(frontier_of(larger, {}), first);
}

TEST(FrontierCache, ForgetsWhatNobodyAskedForLately) {
  const auto first = frontier_of(problem_of(10), {});
  const auto second = frontier_of(problem_of(11), {});
  for (size_t i = 2; i < kKeptFrontiers; ++i) frontier_of(problem_of(10 + static_cast<int>(i)), {});
  EXPECT_EQ(frontier_of(problem_of(10), {}), first);
  frontier_of(problem_of(10 + static_cast<int>(kKeptFrontiers)), {});
  EXPECT_EQ(frontier_of(problem_of(10), {}), first);
  EXPECT_NE(frontier_of(problem_of(11), {}), second);
}

TEST(FrontierCache, KnowsFrontiersOfOtherSizes) {
  EXPECT_EQ(known_frontier(problem_of(40), BudgetEffort::quick).frontier, nullptr);
  const auto built = frontier_of(problem_of(40), {});
  const auto same = known_frontier(problem_of(40), BudgetEffort::quick);
  EXPECT_EQ(same.frontier, built);
  EXPECT_FALSE(same.carried);
  const auto other = known_frontier(problem_of(40, 9000), BudgetEffort::quick);
  ASSERT_NE(other.frontier, nullptr);
  EXPECT_TRUE(other.carried);
  EXPECT_EQ(other.frontier->eager_peak, build_frontier(problem_of(40, 9000)).eager_peak);
  EXPECT_EQ(known_frontier(problem_of(40, 9000), BudgetEffort::thorough).frontier, nullptr);
}

TEST(FrontierCache, ServesManyThreads) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([i] {
      for (int round = 0; round < 20; ++round) {
        const Problem problem = problem_of(3 + (i + round) % 5);
        EXPECT_EQ(frontier_of(problem, {})->eager_peak, build_frontier(problem).eager_peak);
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

}  // namespace budget_frontier_cache_test
}  // namespace antegrad::testing
