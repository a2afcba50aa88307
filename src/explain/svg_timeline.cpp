#include "explain/svg_timeline.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "explain/line_chart.h"
#include "graph/byte_text.h"
#include "graph/generated_node.h"
#include "graph/op.h"

namespace antegrad {
namespace {

/// More titles would make the file large, and lie too close to hover over.
constexpr size_t kMostTitles = 3000;

}  // namespace

LiveSeries live_series(std::string name, const Timeline& timeline,
                       const std::set<int32_t>& recomputed) {
  LiveSeries series;
  series.name = std::move(name);
  std::set<int32_t> ran;  // nodes
  bool open = false;      // the last stretch of series.again may continue
  for (size_t i = 0; i < timeline.points.size(); ++i) {
    const Timeline::Point& point = timeline.points[i];
    series.live.push_back(point.live);
    series.ops.push_back(point.op.name());
    if (point.pass == Phase::backward && !series.backward_start) series.backward_start = i;
    if (point.op.traits().view) continue;
    const bool ran_before = !ran.insert(point.node_id).second && point.node_id >= 0;
    const bool kernel = point.pass == Phase::backward && point.op == generated_op();
    const bool again = ran_before || (kernel && recomputed.contains(point.node_id));
    if (again && !open) series.again.emplace_back(i, i);
    if (again) series.again.back().second = i + 1;
    open = again;
  }
  return series;
}

std::string timeline_svg(const std::vector<LiveSeries>& series, const TimelineOptions& timeline) {
  const bool one_length = std::ranges::all_of(
      series, [&](const LiveSeries& s) { return s.live.size() == series.front().live.size(); });
  const bool stretched = timeline.stretched && !one_length;
  ChartOptions options;
  options.title = timeline.title;
  options.y_label = "memory alive";
  options.y_unit = AxisUnit::bytes;
  options.x_label = stretched ? "course of the step" : "position in the step";
  options.x_unit = stretched ? AxisUnit::percent : AxisUnit::plain;
  options.bands_label = "recomputed";
  if (timeline.budget) {
    const auto bytes = static_cast<double>(*timeline.budget);
    options.guides.push_back({false, bytes, "budget " + precise_bytes_text(bytes)});
  }
  bool divided = false;
  std::vector<Series> lines;
  for (const LiveSeries& live : series) {
    const auto count = static_cast<double>(std::max<size_t>(live.live.size(), 1));
    const auto place = [&](size_t i) {
      return stretched ? static_cast<double>(i) / count : static_cast<double>(i);
    };
    Series line;
    line.steps = true;
    line.dashed = live.dashed;
    for (size_t i = 0; i < live.live.size(); ++i) {
      line.x.push_back(place(i));
      line.y.push_back(static_cast<double>(live.live[i]));
      if (i < live.ops.size() && live.live.size() <= kMostTitles) {
        line.titles.push_back(
            fmt::format("{}: {}, {}", i, short_name(live.ops[i]), bytes_text(line.y.back())));
      }
    }
    if (!live.live.empty()) {
      // The last point is as wide as the others.
      line.x.push_back(place(live.live.size()));
      line.y.push_back(line.y.back());
    }
    line.name = live.name;
    if (!line.y.empty()) {
      const auto peak = std::max_element(line.y.begin(), line.y.end());
      line.mark = peak - line.y.begin();
      line.name += ", peak " + bytes_text(*peak);
      if (*line.mark < live.ops.size()) line.mark_label = short_name(live.ops[*line.mark]);
    }
    if (live.backward_start && !divided) {
      divided = true;
      options.guides.push_back({true, place(*live.backward_start), "backward"});
    }
    if (&live == &series.back()) {
      for (const auto& [from, to] : live.again) options.bands.push_back({place(from), place(to)});
    }
    lines.push_back(std::move(line));
  }
  return line_chart(lines, options);
}

}  // namespace antegrad
