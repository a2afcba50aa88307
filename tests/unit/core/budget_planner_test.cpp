#include "partition/budget/planner.h"

#include <gtest/gtest.h>

#include <antegrad/error.h>

#include "cost/machine.h"
#include "exported_graphs.h"
#include "graph/verify.h"
#include "partition/budget/simulator.h"

namespace antegrad::testing {
namespace budget_planner_test {

using namespace budget;

std::vector<double> times_of(const Graph& graph) { return node_seconds(graph, {}, "gpu"); }

class BudgetPlanner : public ::testing::TestWithParam<const char*> {
 protected:
  const Graph joint = exported_joint(GetParam());
  const Planner planner{joint, times_of(joint)};
  const Archive& archive = planner.frontier().archive;

  std::vector<int64_t> budgets(int count) const {
    const int64_t low = archive.smallest().peak;
    const int64_t high = planner.frontier().eager_peak + 1000;
    std::vector<int64_t> budgets;
    for (int i = 0; i < count; ++i) budgets.push_back(low + (high - low) * i / (count - 1));
    return budgets;
  }
};

TEST_P(BudgetPlanner, TheSameGraphHasTheSameFrontier) {
  const Frontier again = build_frontier(planner.problem());
  const std::vector<PlanPoint> a = archive.points();
  const std::vector<PlanPoint> b = again.archive.points();
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].peak, b[i].peak);
    EXPECT_EQ(a[i].extra, b[i].extra);
    EXPECT_EQ(*a[i].plan, *b[i].plan);
  }
  EXPECT_EQ(again.measured, planner.frontier().measured);
}

TEST_P(BudgetPlanner, ALargerBudgetIsNeverSlowerAndTheLargestIsEager) {
  std::optional<PlanPoint> before;
  Simulator simulator(planner.problem());
  for (const int64_t budget : budgets(50)) {
    const PlanPoint point = planner.pick(budget);
    EXPECT_LE(point.peak, budget);
    if (before) {
      EXPECT_LE(point.extra, before->extra);
      EXPECT_GE(point.peak, before->peak);
    }
    const Measure measure = simulator.set(*point.plan);
    EXPECT_EQ(measure.peak, point.peak);
    EXPECT_EQ(measure.extra, point.extra);
    before = point;
  }
  EXPECT_EQ(before->extra, 0);
}

TEST_P(BudgetPlanner, BelowTheSmallestPeakItSaysWhatWouldWork) {
  const int64_t smallest = archive.smallest().peak;
  EXPECT_GE(smallest, planner.frontier().floor);
  try {
    planner.pick(smallest - 1);
    FAIL() << "a plan that does not exist";
  } catch (const BudgetError& error) {
    EXPECT_EQ(error.smallest_bytes(), smallest);
    EXPECT_EQ(planner.pick(error.smallest_bytes()).peak, smallest);
    EXPECT_NE(std::string(error.what()).find(std::to_string(smallest - 1)), std::string::npos);
  }
}

TEST_P(BudgetPlanner, PartitionsTakeWhatTheirPlansSay) {
  for (const int64_t budget : budgets(6)) {
    const PlanPoint point = planner.pick(budget);
    const Partition partition = planner.partition(point);
    EXPECT_NO_THROW(verify(partition.forward));
    EXPECT_NO_THROW(verify(partition.backward));
    EXPECT_EQ(simulate(partition).peak_bytes, point.peak);
    EXPECT_FALSE(partition.decisions.empty());
  }
}

TEST_P(BudgetPlanner, ReasonsTellWhatTheOtherChoiceWouldTake) {
  const PlanPoint point =
      planner.pick((archive.smallest().peak + planner.frontier().eager_peak) / 2);
  int decided = 0;
  for (const Reason& reason : planner.reasons(point)) {
    EXPECT_FALSE(reason.rule.empty());
    if (!reason.decided) {
      EXPECT_EQ(reason.choice, kSave);
      EXPECT_EQ(reason.other_peak, 0);
      continue;
    }
    ++decided;
    Plan other = *point.plan;
    Choice& choice = other[reason.value];
    EXPECT_EQ(reason.choice, choice);
    choice = choice == kSave ? kRecompute : kSave;
    const Measure measure = Simulator(planner.problem()).set(other);
    EXPECT_EQ(reason.other_peak, measure.peak - point.peak);
    EXPECT_EQ(reason.other_extra, measure.extra - point.extra);
  }
  EXPECT_GT(decided, 5);
}

INSTANTIATE_TEST_SUITE_P(Graphs, BudgetPlanner,
                         ::testing::Values("mlp2_small", "gpt1_tiny", "res2_tiny"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace budget_planner_test
}  // namespace antegrad::testing
