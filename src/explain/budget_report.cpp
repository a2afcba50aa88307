#include "explain/budget_report.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "explain/table.h"
#include "explain/time_text.h"
#include "graph/byte_text.h"
#include "graph/text.h"

namespace antegrad {
namespace {

using budget::kHopeless;
using budget::kSave;
using budget::PlanPoint;
using budget::Reason;

double share(int64_t part, int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

std::string choice_text(const budget::Planner& planner, const Reason& reason) {
  if (reason.packing >= 0) {
    const int32_t way = planner.problem().packing(reason.packing).way;
    return fmt::format("packed ({})", planner.ways()[way]);
  }
  if (reason.choice == kSave) return "saved";
  if (budget::is_window(reason.choice) && reason.runs > 1)
    return fmt::format("forgotten, {}x", reason.runs);
  if (reason.runs > 1) return fmt::format("recomputed {}x", reason.runs);
  return reason.moved ? "made later" : "recomputed";
}

BudgetValue value_of(const budget::Planner& planner, const Reason& reason, int64_t room) {
  const budget::Problem& problem = planner.problem();
  const budget::Value& in_problem = problem.value(reason.value);
  const budget::Operation& operation = problem.operation(in_problem.maker);
  const Graph& graph = planner.joint();
  BudgetValue value;
  value.value = in_problem.id;
  value.text = value_text(graph.value(in_problem.id));
  value.made_by = graph.nodes[operation.node].op.name();
  value.bytes = in_problem.bytes;
  value.choice = choice_text(planner, reason);
  value.rule = std::string(reason.rule);
  value.runs = reason.runs;
  if (!budget::is_kept(reason.choice)) {
    value.time = operation.time * (reason.runs - int64_t{reason.moved});
  } else if (reason.packing >= 0) {
    value.time = problem.packing(reason.packing).time;
  }
  value.decided = reason.decided;
  value.other_hopeless = reason.other_peak > kHopeless.peak / 2;
  if (value.other_hopeless) return value;
  value.other_peak = reason.other_peak;
  value.other_extra = reason.other_extra;
  value.other_breaks = reason.other_peak > room;
  return value;
}

/// Sums by rule. The time of an operation with several outputs counts once.
class Rules {
 public:
  explicit Rules(const budget::Problem& problem) : problem_(problem) {}

  void add(const BudgetValue& value, const Reason& reason) {
    const auto it = std::ranges::find_if(
        rules_, [&](const BudgetRule& rule) { return rule.rule == value.rule; });
    BudgetRule& rule = it == rules_.end() ? rules_.emplace_back() : *it;
    rule.rule = value.rule;
    const budget::Value& in_problem = problem_.value(reason.value);
    if (budget::is_kept(reason.choice)) {
      ++rule.saved;
      rule.time += value.time;
      if (!in_problem.result) {
        rule.saved_bytes += budget::kept_bytes(problem_, reason.value, reason.choice);
      }
    } else {
      ++rule.recomputed;
      rule.recomputed_bytes += value.bytes;
      if (counted_.insert(in_problem.maker).second) rule.time += value.time;
    }
  }
  std::vector<BudgetRule> take() { return std::move(rules_); }

 private:
  const budget::Problem& problem_;
  std::vector<BudgetRule> rules_;
  std::set<int32_t> counted_;
};

void add_neighbours(BudgetReport& report, const std::vector<PlanPoint>& points) {
  // Points are sorted by falling peak, and thus by growing time.
  for (const PlanPoint& point : points) {
    if (point.peak > report.peak && point.extra < report.extra) {
      report.faster = ParetoPoint{point.peak, point.extra};
    }
    if (point.peak < report.peak && !report.smaller) {
      report.smaller = ParetoPoint{point.peak, point.extra};
    }
  }
}

// --- text ----------------------------------------------------------------------------------------

std::string head(const BudgetReport& report) {
  const auto line = [](std::string_view what, const std::string& bytes, const std::string& more) {
    return fmt::format("  {:<22} {:>12}{}{}\n", what, bytes, more.empty() ? "" : "   ", more);
  };
  const auto of_eager = [&](int64_t bytes) {
    return fmt::format("{:5.1f} % of eager", 100 * share(bytes, report.eager_peak));
  };
  std::string text =
      report.name + (report.budget ? ": a plan for " + precise_bytes_text(*report.budget)
                                   : ": the plan without a budget");
  text += (report.how.empty() ? "" : " (" + report.how + ")") + "\n\n";
  text += line("peak", precise_bytes_text(report.peak), of_eager(report.peak));
  text += line("eager peak", precise_bytes_text(report.eager_peak),
               "all that the backward reads is saved");
  text += line("smallest known peak", precise_bytes_text(report.smallest_peak),
               of_eager(report.smallest_peak));
  text += line("no plan gets below", precise_bytes_text(report.floor), of_eager(report.floor));
  text +=
      line("recomputation takes", time_text(seconds(report.extra)),
           fmt::format("{:5.2f} % of the step, which takes {} without",
                       100 * share(report.extra, report.step), time_text(seconds(report.step))));
  return text + line("plans measured", fmt::format("{}", report.measured), "");
}

std::string signed_text(int64_t amount, const std::string& text) {
  return amount == 0 ? "-" : amount > 0 ? "+" + text : text;
}

/// The effect of the other choice on the peak and the time, and whether it is possible.
std::vector<std::string> other_choice(const BudgetValue& value) {
  if (value.other_hopeless) return {"too often", "", ""};
  if (!value.decided) return {"", "", ""};
  return {signed_text(value.other_peak, bytes_text(value.other_peak)),
          signed_text(value.other_extra, time_text(seconds(value.other_extra))),
          value.other_breaks ? "over" : ""};
}

std::string table_of_values(const BudgetReport& report, size_t most) {
  if (report.values.empty()) return "\nThe backward needs nothing that the forward makes.\n";
  using enum Align;
  Table table({left, right, left, right, right, right, left, left, left, left});
  table.add(
      {"value", "bytes", "choice", "takes", "else: peak", "time", "", "tensor", "made by", "rule"});
  const size_t shown = std::min(most, report.values.size());
  bool over = false;
  for (size_t i = 0; i < shown; ++i) {
    const BudgetValue& value = report.values[i];
    const std::vector<std::string> other = other_choice(value);
    over = over || value.other_breaks;
    table.add({fmt::format("%{}", value.value), bytes_text(value.bytes), value.choice,
               value.time == 0 ? "" : time_text(seconds(value.time)), other[0], other[1], other[2],
               value.text, value.made_by, value.rule});
  }
  std::string text = "\n" + table.text();
  if (shown < report.values.size()) {
    int64_t rest = 0;
    for (size_t i = shown; i < report.values.size(); ++i) rest += report.values[i].bytes;
    text += fmt::format("  ... and {} smaller ones of {}\n", report.values.size() - shown,
                        bytes_text(rest));
  }
  text += "\n  else: what the other choice would add to the peak and to the time";
  return text + (over ? "; over: that would break the budget\n" : "\n");
}

std::string table_of_rules(const BudgetReport& report) {
  if (report.rules.empty()) return "";
  std::string text = fmt::format("\n  {:<24} {:>8} {:>11} {:>11} {:>11} {:>9}\n", "rule", "saved",
                                 "bytes", "recomputed", "bytes", "takes");
  for (const BudgetRule& rule : report.rules) {
    text += fmt::format("  {:<24} {:>8} {:>11} {:>11} {:>11} {:>9}\n", rule.rule, rule.saved,
                        bytes_text(rule.saved_bytes), rule.recomputed,
                        bytes_text(rule.recomputed_bytes), time_text(seconds(rule.time)));
  }
  return text;
}

/// The price of the last saved bytes as text.
std::string in_words(const BudgetReport& report) {
  std::string text = "\n";
  if (report.faster && report.smaller) {
    const double bytes = static_cast<double>(report.faster->peak - report.smaller->peak);
    const double time = static_cast<double>(report.smaller->extra - report.faster->extra);
    const ByteUnit& unit = byte_unit(bytes * 4);
    text += fmt::format("About here, 1 {} less costs {}.\n", unit.name,
                        time_text(time * 1e-12 / bytes * unit.bytes));
  }
  if (report.faster) {
    text += fmt::format("The next faster plan saves {} of the step and peaks at {}, {} more.\n",
                        time_text(seconds(report.extra - report.faster->extra)),
                        precise_bytes_text(report.faster->peak),
                        bytes_text(report.faster->peak - report.peak));
  } else {
    text += report.extra == 0 ? "Nothing is recomputed for the budget: no plan is faster.\n"
                              : "No faster plan is known, whatever the budget.\n";
  }
  if (report.smaller) {
    text += fmt::format("The next smaller plan peaks at {}, {} less, and takes {} longer.\n",
                        precise_bytes_text(report.smaller->peak),
                        bytes_text(report.peak - report.smaller->peak),
                        time_text(seconds(report.smaller->extra - report.extra)));
  } else {
    text += "No smaller plan is known.\n";
  }
  return text;
}

nlohmann::json json_of(const std::optional<ParetoPoint>& point) {
  if (!point) return nullptr;
  return {{"peak_bytes", point->peak}, {"recompute_us", microseconds(point->extra)}};
}

nlohmann::json json_of(const BudgetValue& value) {
  nlohmann::json json = {{"value", value.value},     {"tensor", value.text},
                         {"made_by", value.made_by}, {"bytes", value.bytes},
                         {"choice", value.choice},   {"rule", value.rule},
                         {"runs", value.runs},       {"recompute_us", microseconds(value.time)}};
  json["otherwise"] = nullptr;
  if (!value.decided || value.other_hopeless) return json;
  json["otherwise"] = {{"peak_bytes", value.other_peak},
                       {"recompute_us", microseconds(value.other_extra)},
                       {"breaks_budget", value.other_breaks}};
  return json;
}

}  // namespace

BudgetReport budget_report(const budget::Planner& planner, const PlanPoint& point,
                           std::optional<int64_t> budget) {
  const budget::Frontier& frontier = planner.frontier();
  BudgetReport report;
  report.name = planner.joint().name;
  report.budget = budget;
  report.peak = point.peak;
  report.eager_peak = frontier.eager_peak;
  report.smallest_peak = frontier.archive.smallest().peak;
  report.floor = frontier.floor;
  report.extra = point.extra;
  report.step = planner.problem().time;
  report.measured = frontier.measured;
  const int64_t room = budget ? *budget - point.peak : kHopeless.peak;
  Rules rules(planner.problem());
  for (const Reason& reason : planner.reasons(point)) {
    report.values.push_back(value_of(planner, reason, room));
    if (!budget && reason.decided) report.values.back().rule = "as_written";
    rules.add(report.values.back(), reason);
  }
  report.rules = rules.take();
  std::ranges::stable_sort(
      report.values, [](const BudgetValue& a, const BudgetValue& b) { return a.bytes > b.bytes; });
  add_neighbours(report, frontier.archive.points());
  return report;
}

std::string to_text(const BudgetReport& report, size_t most) {
  return head(report) + table_of_values(report, most) + table_of_rules(report) + in_words(report);
}

nlohmann::json to_json(const BudgetReport& report) {
  nlohmann::json json = {{"name", report.name},
                         {"peak_bytes", report.peak},
                         {"eager_peak_bytes", report.eager_peak},
                         {"smallest_peak_bytes", report.smallest_peak},
                         {"floor_bytes", report.floor},
                         {"recompute_us", microseconds(report.extra)},
                         {"step_us", microseconds(report.step)},
                         {"plans_measured", report.measured},
                         {"faster", json_of(report.faster)},
                         {"smaller", json_of(report.smaller)}};
  json["budget_bytes"] = nullptr;
  if (report.budget) json["budget_bytes"] = *report.budget;
  json["rules"] = nlohmann::json::array();
  for (const BudgetRule& rule : report.rules) {
    json["rules"].push_back({{"rule", rule.rule},
                             {"saved", rule.saved},
                             {"recomputed", rule.recomputed},
                             {"saved_bytes", rule.saved_bytes},
                             {"recomputed_bytes", rule.recomputed_bytes},
                             {"recompute_us", microseconds(rule.time)}});
  }
  json["values"] = nlohmann::json::array();
  for (const BudgetValue& value : report.values) json["values"].push_back(json_of(value));
  return json;
}

}  // namespace antegrad
