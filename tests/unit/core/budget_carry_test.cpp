#include "partition/budget/carry.h"

#include <vector>

#include <gtest/gtest.h>

#include <antegrad/error.h>

#include "planned_graphs.h"

namespace antegrad::testing {
namespace budget_carry_test {

using namespace budget;

TEST(CarriedPlans, SizesChangeBytesAndTimesOnly) {
  const PlannedGraph chain(chain_graph(12)), larger(chain_graph(12, 8192)), longer(chain_graph(13));
  EXPECT_TRUE(same_structure(chain.planner.problem(), larger.planner.problem()));
  EXPECT_FALSE(same_structure(chain.planner.problem(), longer.planner.problem()));
  Problem other = chain.planner.problem();
  other.values[3].always_saved = true;
  EXPECT_FALSE(same_structure(chain.planner.problem(), other));
  other = chain.planner.problem();
  other.operations[2].again = false;
  EXPECT_FALSE(same_structure(chain.planner.problem(), other));
}

// The peaks of the partitions are simulated on their graphs, which share nothing with the search.
TEST(CarriedPlans, AreMeasuredForTheNewSizes) {
  const PlannedGraph chain(chain_graph(12)), larger(chain_graph(12, 5000));
  const auto carried = carried_frontier(larger.planner.problem(), chain.planner.frontier());
  ASSERT_TRUE(carried);
  EXPECT_EQ(carried->eager_peak, larger.planner.frontier().eager_peak);
  const auto points = carried->archive.points();
  EXPECT_GT(points.size(), 3u);
  for (const PlanPoint& point : points) {
    EXPECT_EQ(simulate(larger.planner.partition(point)).peak_bytes, point.peak);
  }
  EXPECT_EQ(carried->archive.smallest().peak, larger.planner.frontier().archive.smallest().peak);
}

TEST(CarriedPlans, DoNotServeSizesThatTheyDoNotSuit) {
  const PlannedGraph chain(chain_graph(12)), larger(chain_graph(12, 8192));
  // Nothing was worth recomputing there, and no plan was smaller.
  Frontier other = frontier_of_plans(chain.planner.problem(), {});
  other.floor = other.eager_peak;
  EXPECT_FALSE(carried_frontier(larger.planner.problem(), other));
}

TEST(CarriedPlans, AreKeptAsDecisionsAboutValues) {
  const PlannedGraph chain(chain_graph(12)), larger(chain_graph(12, 8192));
  for (const PlanPoint& point : chain.planner.frontier().archive.points()) {
    const auto decisions = decisions_of(chain.planner.problem(), *point.plan);
    const Plan plan = plan_of(larger.planner.problem(), decisions);
    EXPECT_EQ(decisions_of(larger.planner.problem(), plan), decisions);
    const Plan same = plan_of(chain.planner.problem(), decisions);
    const Frontier one = frontier_of_plans(chain.planner.problem(), {&same, 1});
    EXPECT_EQ(one.archive.at_most(point.peak)->extra, point.extra);
  }
  const auto& problem = chain.planner.problem();
  EXPECT_THROW(plan_of(problem, {{ValueId(1000), kSave}}), GraphError);
  EXPECT_THROW(plan_of(problem, {{chain.graph.inputs[0].value, kOpen}}), GraphError);
  const auto& choices = decisions_of(problem, *chain.planner.eager().plan);
  ASSERT_FALSE(choices.empty());
  EXPECT_THROW(plan_of(problem, {{choices[0].first, kFirstPacking}}), GraphError);
}

}  // namespace budget_carry_test
}  // namespace antegrad::testing
