#include <antegrad/charts.h>
#include <antegrad/error.h>

#include <algorithm>

#include "explain/line_chart.h"
#include "explain/svg_timeline.h"
#include "graph/byte_text.h"

namespace antegrad {
namespace {

Series memory_line(const MemorySeries& memory) {
  Series line;
  line.name = memory.name;
  line.steps = true;
  line.dashed = memory.dashed;
  line.x.push_back(0);
  line.y.push_back(0);
  for (const auto& event : memory.events) {
    line.x.push_back(event.milliseconds);
    line.y.push_back(static_cast<double>(event.live_bytes));
  }
  const auto peak = std::max_element(line.y.begin(), line.y.end());
  line.mark = peak - line.y.begin();
  line.name += ", peak " + bytes_text(*peak);
  return line;
}

}  // namespace

std::string line_chart_svg(const std::vector<ChartSeries>& series, const ChartText& text) {
  std::vector<Series> lines;
  for (const auto& given : series) {
    if (given.x.size() != given.y.size()) {
      throw InputError(ErrorText{
          "as many x as y in the series '" + given.name + "'",
          std::to_string(given.x.size()) + " x and " + std::to_string(given.y.size()) + " y", ""});
    }
    auto& line = lines.emplace_back();
    line.name = given.name;
    line.x = given.x;
    line.y = given.y;
    line.dashed = given.dashed;
  }
  ChartOptions options;
  options.title = text.title;
  options.x_label = text.x_label;
  options.y_label = text.y_label;
  options.y_from_zero = false;
  return line_chart(lines, options);
}

std::string memory_chart_svg(const std::vector<MemorySeries>& series, const std::string& title) {
  ChartOptions options;
  options.title = title;
  options.x_label = "time in ms";
  options.y_label = "memory alive";
  options.y_unit = AxisUnit::bytes;
  std::vector<Series> lines;
  for (const auto& memory : series) {
    lines.push_back(memory_line(memory));
    if (!memory.backward_ms || !options.guides.empty()) continue;
    options.guides.push_back({true, *memory.backward_ms, "backward"});
  }
  return line_chart(lines, options);
}

std::string memory_chart_svg(const ProgramReport& program) {
  LiveSeries series;
  series.name = "predicted";
  series.live = program.live_bytes;
  if (program.backward_nodes > 0) series.backward_start = program.forward_nodes;
  series.again.assign(program.recomputed_at.begin(), program.recomputed_at.end());
  TimelineOptions options;
  options.title = program.name + ": memory alive over a step";
  if (program.memory_budget_bytes > 0) options.budget = program.memory_budget_bytes;
  return timeline_svg({series}, options);
}

}  // namespace antegrad
