#pragma once

/// \file
/// Charts as SVG text: curves of a training run, memory over a step.

#include <antegrad/memory.h>

#include <string>
#include <vector>

namespace antegrad {

struct ChartText {
  std::string title, x_label, y_label;
};

/// One line of a chart. `x` and `y` are of the same length; `x` ascends.
struct ChartSeries {
  std::string name;
  std::vector<double> x, y;
};

/// Lines over common axes, with a legend when there is more than one. Throws InputError when `x` and
/// `y` of a series differ in length or there is no point at all.
std::string line_chart_svg(const ChartText& text, const std::vector<ChartSeries>& series);

/// What a MemoryMeter recorded of one step.
struct MemorySeries {
  std::string name;
  std::vector<MemoryEvent> events;
};

/// Live bytes over time, one stepped line a series.
std::string memory_chart_svg(const std::string& title, const std::vector<MemorySeries>& series);

}  // namespace antegrad
