#include "explain/pareto.h"

#include <algorithm>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "partition/default_partition.h"
#include "planned_graphs.h"

namespace antegrad::testing {
namespace pareto_test {

size_t lines(const std::string& text) {
  return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
}

TEST(Pareto, PointsFallInPeakAndGrowInTimeDownToTheSmallest) {
  const PlannedGraph planned("reference/llama.agraph");
  const Pareto found = pareto(planned.planner);
  ASSERT_GT(found.points.size(), 10u);
  for (size_t i = 1; i < found.points.size(); ++i) {
    EXPECT_LT(found.points[i].peak, found.points[i - 1].peak);
    EXPECT_GE(found.points[i].extra, found.points[i - 1].extra);
  }
  EXPECT_EQ(found.marks[0].name, "eager");
  EXPECT_EQ(found.marks[0].point.peak, planned.planner.frontier().eager_peak);
  EXPECT_EQ(found.marks[1].point.peak, found.points.back().peak);
}

TEST(Pareto, OtherPartitionsAreMeasuredInTheSameWay) {
  const PlannedGraph planned("reference/llama.agraph");
  const auto plans = planned.planner.frontier().archive.points();
  for (const budget::PlanPoint& plan : {plans.front(), plans[plans.size() / 2], plans.back()}) {
    const ParetoPoint point = measure(planned.planner, planned.planner.partition(plan));
    EXPECT_EQ(point.peak, plan.peak);
    EXPECT_EQ(point.extra, plan.extra);
  }
}

TEST(Pareto, ThePlanWithoutABudgetIsThatOfTheDefaultPartition) {
  for (const char* file : {"mlp.agraph", "reference/llama.agraph", "reference/gpt.agraph",
                           "reference/unet.agraph", "reference/bert.agraph"}) {
    const PlannedGraph planned{std::string(file)};
    const budget::PlanPoint eager = planned.planner.eager();
    const ParetoPoint point = measure(planned.planner, default_partition(planned.graph));
    EXPECT_EQ(eager.peak, point.peak) << file;
    EXPECT_EQ(eager.extra, point.extra) << file;
    EXPECT_EQ(eager.extra, 0) << file;
  }
}

TEST(Pareto, TheTableIsSpreadEvenlyAndKeepsBothEnds) {
  Pareto found{"many", 10, 1000000, {}, {{"eager", {10000, 0}}}};
  for (int i = 0; i < 1000; ++i) found.points.push_back({10000 - 9 * i, 1000 * i});
  const std::string text = to_text(found);
  EXPECT_NE(text.find("many: 1000 points; no plan gets below 10 B"), std::string::npos) << text;
  EXPECT_NE(text.find(" 9.766 KiB    100.0 %          0 s     0.00 %   eager\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find(" 1009 B     10.1 %       999 ns    99.90 %\n"), std::string::npos) << text;
  EXPECT_GE(lines(text), 24u);
  EXPECT_LE(lines(text), 30u);
}

TEST(Pareto, CsvAndJsonHaveAllPoints) {
  const PlannedGraph planned(chain_graph(12));
  const Pareto found = pareto(planned.planner);
  EXPECT_EQ(lines(to_csv(found)), found.points.size() + 1);
  EXPECT_EQ(to_csv(found).find("peak_bytes,recompute_us,share\n"), 0u);
  const nlohmann::json json = to_json(found);
  EXPECT_EQ(json["points"].size(), found.points.size());
  EXPECT_EQ(json["points"].back()["peak_bytes"], found.points.back().peak);
  EXPECT_EQ(json["marks"][0]["name"], "eager");
  EXPECT_EQ(json["floor_bytes"], found.floor);
}

TEST(Pareto, ThePictureNamesItsMarksAndTitlesItsPoints) {
  const PlannedGraph planned(chain_graph(12));
  Pareto found = pareto(planned.planner);
  found.marks.push_back({"minimum cut", found.marks[0].point});
  found.marks.push_back({"chosen", {found.points[1].peak, found.points[1].extra}});
  const std::string svg = to_svg(found);
  for (const char* part :
       {">fastest plans<", ">eager, minimum cut ", ">smallest known ", ">chosen ",
        ">no plan gets below ", "<title>chosen: ", "recompute time (us)",
        "peak of forward and backward (KiB)", "prefers-color-scheme: dark"}) {
    EXPECT_NE(svg.find(part), std::string::npos) << part;
  }
}

TEST(Pareto, NothingToPlanIsNoError) {
  const Pareto empty{"none", 0, 0, {}, {{"eager", {0, 0}}}};
  EXPECT_NO_THROW(to_svg(empty));
  EXPECT_NO_THROW(to_text(empty));
  EXPECT_NO_THROW(to_text(empty, 1));
}

}  // namespace pareto_test
}  // namespace antegrad::testing
