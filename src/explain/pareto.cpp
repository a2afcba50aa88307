#include "explain/pareto.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "explain/line_chart.h"
#include "explain/time_text.h"
#include "graph/byte_text.h"
#include "memory/peak.h"

namespace antegrad {
namespace {

double share(const Pareto& pareto, const ParetoPoint& point) {
  return pareto.step == 0 ? 0 : static_cast<double>(point.extra) / static_cast<double>(pareto.step);
}

/// Indices of points, evenly spread over the peaks, including the first and the last.
std::vector<size_t> spread(const std::vector<ParetoPoint>& points, size_t most) {
  std::vector<size_t> chosen;
  if (points.empty() || most == 0) return chosen;
  const auto width = static_cast<double>(points.front().peak - points.back().peak);
  double next = 0;  // as a share of the width
  for (size_t i = 0; i < points.size(); ++i) {
    const auto done = static_cast<double>(points.front().peak - points[i].peak);
    const bool last = i + 1 == points.size();
    if (!last && done < next * width) continue;
    chosen.push_back(i);
    while (next * width <= done && next < 1) next += 1.0 / static_cast<double>(most - 1);
  }
  return chosen;
}

std::string row_text(const Pareto& pareto, const ParetoPoint& point, std::string_view name) {
  const int64_t eager = pareto.marks.front().point.peak;
  return fmt::format(
      "  {:>12} {:>8.1f} % {:>12} {:>8.2f} %{}{}\n", precise_bytes_text(point.peak),
      100 * static_cast<double>(point.peak) / static_cast<double>(std::max<int64_t>(eager, 1)),
      time_text(seconds(point.extra)), 100 * share(pareto, point), name.empty() ? "" : "   ", name);
}

std::string title_of(const Pareto& pareto, const ParetoPoint& point) {
  return fmt::format("{}, {} recomputed ({:.2f} % of the step)", precise_bytes_text(point.peak),
                     time_text(seconds(point.extra)), 100 * share(pareto, point));
}

/// Merges marks at the same point, since the second would cover the first.
std::vector<ParetoMark> merged(const std::vector<ParetoMark>& marks) {
  std::vector<ParetoMark> result;
  for (const ParetoMark& mark : marks) {
    const auto same = std::ranges::find_if(result, [&](const ParetoMark& other) {
      return other.point.peak == mark.point.peak && other.point.extra == mark.point.extra;
    });
    if (same == result.end()) {
      result.push_back(mark);
    } else {
      same->name += ", " + mark.name;
    }
  }
  return result;
}

nlohmann::json json_of(const Pareto& pareto, const ParetoPoint& point) {
  return {{"peak_bytes", point.peak},
          {"recompute_us", microseconds(point.extra)},
          {"share", share(pareto, point)}};
}

}  // namespace

Pareto pareto(const budget::Planner& planner) {
  const budget::Frontier& frontier = planner.frontier();
  Pareto result;
  result.name = planner.joint().name;
  result.floor = frontier.floor;
  result.step = planner.problem().time;
  for (const budget::PlanPoint& point : frontier.archive.points()) {
    result.points.push_back({point.peak, point.extra});
  }
  const budget::PlanPoint eager = planner.eager();
  const budget::PlanPoint& smallest = frontier.archive.smallest();
  result.marks = {{"eager", {eager.peak, eager.extra}},
                  {"smallest known", {smallest.peak, smallest.extra}}};
  return result;
}

ParetoPoint measure(const budget::Planner& planner, const Partition& partition,
                    const ByteRules& rules) {
  const budget::Problem& problem = planner.problem();
  std::unordered_map<int32_t, int64_t> times;  // by Node::id
  for (const budget::Operation& operation : problem.operations) {
    times[planner.joint().nodes[operation.node].id] = operation.time;
  }
  ParetoPoint point{simulate(partition, rules).peak_bytes, -problem.time};
  for (const Graph* half : {&partition.forward, &partition.backward}) {
    for (const Node& node : half->nodes) {
      const auto it = times.find(node.id);
      if (it != times.end()) point.extra += it->second;
    }
  }
  return point;
}

std::string to_text(const Pareto& pareto, size_t most) {
  std::string text =
      fmt::format("{}: {} point{}; no plan gets below {}; a step takes {} without recomputation\n",
                  pareto.name, pareto.points.size(), pareto.points.size() == 1 ? "" : "s",
                  precise_bytes_text(pareto.floor), time_text(seconds(pareto.step)));
  const std::string head =
      fmt::format("\n  {:>12} {:>10} {:>12} {:>10}\n", "peak", "of eager", "recompute", "of step");
  text += head;
  for (const ParetoMark& mark : pareto.marks) text += row_text(pareto, mark.point, mark.name);
  const std::vector<size_t> shown = spread(pareto.points, most);
  text += shown.size() < pareto.points.size()
              ? fmt::format("\nThe fastest plans, {} of them:\n", shown.size())
              : "\nThe fastest plans:\n";
  text += head;
  for (const size_t i : shown) text += row_text(pareto, pareto.points[i], "");
  return text;
}

nlohmann::json to_json(const Pareto& pareto) {
  nlohmann::json json = {{"name", pareto.name},
                         {"floor_bytes", pareto.floor},
                         {"step_us", microseconds(pareto.step)},
                         {"points", nlohmann::json::array()},
                         {"marks", nlohmann::json::array()}};
  for (const ParetoPoint& point : pareto.points) json["points"].push_back(json_of(pareto, point));
  for (const ParetoMark& mark : pareto.marks) {
    json["marks"].push_back(json_of(pareto, mark.point));
    json["marks"].back()["name"] = mark.name;
  }
  return json;
}

std::string to_csv(const Pareto& pareto) {
  std::string text = "peak_bytes,recompute_us,share\n";
  for (const ParetoPoint& point : pareto.points) {
    text +=
        fmt::format("{},{},{:.6f}\n", point.peak, microseconds(point.extra), share(pareto, point));
  }
  return text;
}

std::string to_svg(const Pareto& pareto) {
  ChartOptions options;
  options.title = pareto.name + ": recomputation by memory budget";
  options.x_label = "memory budget: peak of forward and backward";
  options.x_unit = AxisUnit::bytes;
  options.x_margin = 0.03;
  options.y_label = "recompute time";
  options.y_unit = AxisUnit::seconds;
  options.guides.push_back({true, static_cast<double>(pareto.floor),
                            "no plan gets below " + precise_bytes_text(pareto.floor)});
  int64_t most = 0;
  Series frontier;
  frontier.name = "fastest plans";
  frontier.steps = true;
  frontier.dots = pareto.points.size() <= 300;
  for (auto point = pareto.points.rbegin(); point != pareto.points.rend(); ++point) {
    frontier.x.push_back(static_cast<double>(point->peak));
    frontier.y.push_back(seconds(point->extra));
    frontier.titles.push_back(title_of(pareto, *point));
    most = std::max(most, point->peak);
  }
  for (const ParetoMark& mark : pareto.marks) most = std::max(most, mark.point.peak);
  if (!frontier.x.empty() && most > pareto.points.front().peak) {
    // Larger budgets give the same plan.
    frontier.x.push_back(static_cast<double>(most));
    frontier.y.push_back(frontier.y.back());
    frontier.titles.push_back(frontier.titles.back());
  }
  std::vector<Series> series = {std::move(frontier)};
  for (const ParetoMark& mark : merged(pareto.marks)) {
    Series dot;
    dot.name = fmt::format("{} {}", mark.name, precise_bytes_text(mark.point.peak));
    dot.x = {static_cast<double>(mark.point.peak)};
    dot.y = {seconds(mark.point.extra)};
    dot.dots = true;
    dot.titles = {mark.name + ": " + title_of(pareto, mark.point)};
    series.push_back(std::move(dot));
  }
  return line_chart(series, options);
}

}  // namespace antegrad
