#include "explain/budget_report.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <set>

#include "partition/budget/simulator.h"
#include "planned_graphs.h"

namespace antegrad::testing {
namespace budget_report_test {

using budget::kRecompute;
using budget::kSave;
using budget::Measure;
using budget::Plan;
using budget::PlanPoint;
using budget::Simulator;

int32_t index_of(const budget::Problem& problem, ValueId id) {
  for (size_t v = 0; v < problem.values.size(); ++v) {
    if (problem.values[v].id == id) return static_cast<int32_t>(v);
  }
  return -1;
}

/// Compares the figures of each value with newly measured plans.
void expect_measured(const budget::Planner& planner, const PlanPoint& point,
                     const BudgetReport& report) {
  const budget::Problem& problem = planner.problem();
  for (const BudgetValue& value : report.values) {
    SCOPED_TRACE(value.value);
    const int32_t v = index_of(problem, value.value);
    EXPECT_EQ(value.bytes, problem.value(v).bytes);
    if (!value.decided || value.other_hopeless) continue;
    Plan other = *point.plan;
    auto& choice = other[v];
    choice = choice == kSave ? kRecompute : kSave;
    Simulator simulator(problem);
    const Measure measure = simulator.set(other);
    EXPECT_EQ(measure.peak, report.peak + value.other_peak);
    EXPECT_EQ(measure.extra, report.extra + value.other_extra);
    EXPECT_EQ(value.other_breaks, measure.peak > report.budget.value_or(INT64_MAX));
  }
}

class BudgetReportOf : public ::testing::TestWithParam<const char*> {};

TEST_P(BudgetReportOf, FiguresAreThoseOfPlansMeasuredAnew) {
  const PlannedGraph planned{std::string(GetParam())};
  const budget::Planner& planner = planned.planner;
  for (const double share : {1.0, 0.9, 0.8, 0.7}) {
    const int64_t budget =
        std::max(planner.frontier().archive.smallest().peak,
                 static_cast<int64_t>(share * static_cast<double>(planner.frontier().eager_peak)));
    const PlanPoint point = planner.pick(budget);
    const BudgetReport report = budget_report(planner, point, budget);
    EXPECT_EQ(report.peak, point.peak);
    EXPECT_EQ(report.extra, point.extra);
    expect_measured(planner, point, report);
    int64_t time = 0;
    int64_t values = 0;
    for (const BudgetRule& rule : report.rules) {
      time += rule.time;
      values += rule.saved + rule.recomputed;
    }
    EXPECT_EQ(time, report.extra);
    EXPECT_EQ(values, static_cast<int64_t>(report.values.size()));
    for (size_t i = 1; i < report.values.size(); ++i) {
      EXPECT_GE(report.values[i - 1].bytes, report.values[i].bytes);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, BudgetReportOf,
                         ::testing::Values("mlp.agraph", "dropout.agraph", "reference/llama.agraph",
                                           "reference/lstm.agraph", "reference/vae.agraph"),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name) c = isalpha(c) != 0 ? c : '_';
                           return name;
                         });

TEST(BudgetReport, NeighboursAreTheNextPlansOfTheFrontier) {
  const PlannedGraph planned(chain_graph(12));
  const budget::Planner& planner = planned.planner;
  const auto points = planner.frontier().archive.points();
  ASSERT_GT(points.size(), 3u);
  const BudgetReport report = budget_report(planner, points[1], points[1].peak);
  ASSERT_TRUE(report.faster);
  EXPECT_EQ(report.faster->peak, points[0].peak);
  EXPECT_EQ(report.faster->extra, points[0].extra);
  ASSERT_TRUE(report.smaller);
  EXPECT_EQ(report.smaller->peak, points[2].peak);
  EXPECT_FALSE(budget_report(planner, points.back(), points.back().peak).smaller);
  EXPECT_FALSE(budget_report(planner, points.front(), points.front().peak).faster);
}

TEST(BudgetReport, WithoutABudgetAllThatIsReadIsSaved) {
  const PlannedGraph planned(chain_graph(8));
  const BudgetReport report = budget_report(planned.planner, planned.planner.eager(), {});
  EXPECT_EQ(report.peak, report.eager_peak);
  EXPECT_EQ(report.extra, 0);
  EXPECT_EQ(report.values.size(), 8u);
  for (const BudgetValue& value : report.values) {
    EXPECT_EQ(value.choice, "saved");
    EXPECT_EQ(value.rule, value.decided ? "as_written" : "result");
    EXPECT_FALSE(value.other_breaks);
  }
  EXPECT_NE(to_text(report).find("chain: the plan without a budget\n"), std::string::npos);
}

TEST(BudgetReport, TextShowsTheLargestAndWhatTheLastBytesCost) {
  const PlannedGraph planned(chain_graph(12));
  const budget::Planner& planner = planned.planner;
  const auto points = planner.frontier().archive.points();
  const PlanPoint point = points[points.size() / 2];
  BudgetReport report = budget_report(planner, point, point.peak);
  report.how = "a test";
  const std::string text = to_text(report, 3);
  for (const char* part :
       {"chain: a plan for ", " (a test)\n", "recomputation takes", "16.0 KiB  recomputed",
        "aten::sin.default", "recomputed_by_plan", "... and 9 smaller ones of 144 KiB",
        "over: that would break the budget", "About here, 1 KiB less costs ",
        "The next faster plan saves ", "The next smaller plan peaks at "}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in\n" << text;
  }
  EXPECT_EQ(to_text(report, 100).find("... and"), std::string::npos);
}

TEST(BudgetReport, JsonHasAllValues) {
  const PlannedGraph planned(chain_graph(12));
  const budget::Planner& planner = planned.planner;
  const PlanPoint& point = planner.frontier().archive.smallest();
  const nlohmann::json json = to_json(budget_report(planner, point, point.peak));
  EXPECT_EQ(json["budget_bytes"], point.peak);
  EXPECT_EQ(json["peak_bytes"], point.peak);
  EXPECT_DOUBLE_EQ(json["recompute_us"].get<double>(), static_cast<double>(point.extra) * 1e-6);
  EXPECT_EQ(json["values"].size(), 12u);
  EXPECT_TRUE(json["smaller"].is_null());
  EXPECT_FALSE(json["faster"].is_null());
  std::set<std::string> choices;
  for (const auto& value : json["values"]) {
    choices.insert(value["choice"]);
    EXPECT_EQ(value["otherwise"].is_null(), value["rule"] == "result");
  }
  EXPECT_TRUE(choices.count("saved"));
  EXPECT_GT(choices.size(), 1u);
}

}  // namespace budget_report_test
}  // namespace antegrad::testing
