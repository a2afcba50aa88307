#pragma once

/// \file
/// Charts as SVG text, for a browser or a report: curves of a training run, memory over a step.
/// Structs are values and functions keep no state, so both may be used on any thread.

#include <antegrad/memory.h>
#include <antegrad/report.h>

#include <optional>
#include <string>
#include <vector>

namespace antegrad {

/// One line of a chart: points (x[i], y[i]), joined in order. A point that is not finite
/// interrupts the line.
struct ChartSeries {
  std::string name;
  std::vector<double> x, y;
  bool dashed = false;  ///< for a line that another one covers
};

struct ChartText {
  std::string title, x_label, y_label;
};

/// Lines over common axes, with a legend. Colours follow the order of the series. Throws
/// InputError if `x` and `y` of a series differ in length.
std::string line_chart_svg(const std::vector<ChartSeries>& series, const ChartText& text);

/// The record of a MemoryMeter for one step.
struct MemorySeries {
  std::string name;
  std::vector<MemoryEvent> events;
  bool dashed = false;
  std::optional<double> backward_ms;  ///< start of the backward, on the meter's clock
};

/// Live bytes over time. The peak of each series is circled and named in the legend. `backward_ms`
/// of the first series that has it is marked.
std::string memory_chart_svg(const std::vector<MemorySeries>& series, const std::string& title);

/// Predicted live bytes over the operators of a program's step, with its memory budget if it has
/// one. The peak is circled, recomputation is shaded.
std::string memory_chart_svg(const ProgramReport& program);

}  // namespace antegrad
