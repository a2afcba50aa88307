#pragma once

/// \file
/// Draws lines in a chart: one self-contained SVG text, readable on light and on dark pages
/// (prefers-color-scheme). Timelines of memory, loss curves and Pareto fronts all come from here.

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace antegrad {

/// Points (x[i], y[i]) in the order in which they are joined. A point that is not finite breaks the
/// line.
struct Series {
  std::string name;
  std::vector<double> x;
  std::vector<double> y;
  bool steps = false;  ///< hold each value until the next x, as allocated bytes do
  bool dots = false;   ///< draw the points themselves
  bool dashed = false;
  std::optional<size_t> mark;  ///< a point to circle, e.g. the peak
};

/// What the numbers of an axis are.
enum class AxisUnit { plain, bytes, percent };

struct ChartOptions {
  std::string title;
  std::string x_label;
  std::string y_label;
  AxisUnit x_unit = AxisUnit::plain;
  AxisUnit y_unit = AxisUnit::plain;
  bool y_from_zero = true;
  /// A vertical line at this x, with a word beside it.
  std::optional<double> divider;
  std::string divider_label;
  int width = 860;
  int height = 420;
};

/// The SVG text. Series may have any length, none included; colours follow their order.
std::string line_chart(const std::vector<Series>& series, const ChartOptions& options);

/// "12.5 MiB", "3 KiB": bytes as the charts and reports write them.
std::string bytes_text(double bytes);

}  // namespace antegrad
