#include "explain/svg_timeline.h"

#include <algorithm>
#include <utility>

#include "explain/line_chart.h"

namespace antegrad {

LiveSeries live_series(std::string name, const Timeline& timeline) {
  LiveSeries series;
  series.name = std::move(name);
  for (size_t i = 0; i < timeline.points.size(); ++i) {
    const Timeline::Point& point = timeline.points[i];
    series.live.push_back(point.live);
    if (point.pass == Phase::backward && !series.backward_start) series.backward_start = i;
  }
  return series;
}

std::string timeline_svg(const std::vector<LiveSeries>& series, const std::string& title) {
  const bool one_length = std::all_of(series.begin(), series.end(), [&](const LiveSeries& s) {
    return s.live.size() == series.front().live.size();
  });
  ChartOptions options;
  options.title = title;
  options.y_label = "memory alive";
  options.y_unit = AxisUnit::bytes;
  options.x_label = one_length ? "position in the step" : "course of the step";
  options.x_unit = one_length ? AxisUnit::plain : AxisUnit::percent;
  std::vector<Series> lines;
  for (const LiveSeries& live : series) {
    const auto count = static_cast<double>(std::max<size_t>(live.live.size(), 1));
    const auto place = [&](size_t i) {
      return one_length ? static_cast<double>(i) : static_cast<double>(i) / count;
    };
    Series line;
    line.steps = true;
    line.dashed = live.dashed;
    for (size_t i = 0; i < live.live.size(); ++i) {
      line.x.push_back(place(i));
      line.y.push_back(static_cast<double>(live.live[i]));
    }
    if (!live.live.empty()) {
      // The last one lasts as long as the others.
      line.x.push_back(place(live.live.size()));
      line.y.push_back(line.y.back());
    }
    line.name = live.name;
    if (!line.y.empty()) {
      const auto peak = std::max_element(line.y.begin(), line.y.end());
      line.mark = static_cast<size_t>(peak - line.y.begin());
      line.name += ", peak " + bytes_text(*peak);
    }
    if (live.backward_start && !options.divider) {
      options.divider = place(*live.backward_start);
      options.divider_label = "backward";
    }
    lines.push_back(std::move(line));
  }
  return line_chart(lines, options);
}

}  // namespace antegrad
