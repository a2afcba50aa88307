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
  bool dots =
      false;  ///< draw the points themselves; a series of one point is a dot in the legend too
  bool dashed = false;
  std::optional<size_t> mark;  ///< a point to circle, e.g. the peak
  std::string mark_label;      ///< beside it
  std::vector<std::string>
      titles;  ///< by point, or none: what a browser shows when the mouse is over it
};

/// A line across the chart, dotted, with a word beside it.
struct Guide {
  bool vertical = true;
  double at = 0;
  std::string label;
};

/// A shaded range of x.
struct Band {
  double from = 0;
  double to = 0;
};

/// What the numbers of an axis are.
enum class AxisUnit { plain, bytes, percent, seconds };

struct ChartOptions {
  std::string title;
  std::string x_label;
  std::string y_label;
  AxisUnit x_unit = AxisUnit::plain;
  AxisUnit y_unit = AxisUnit::plain;
  bool y_from_zero = true;
  double x_margin = 0;  ///< beside the data, as a share of their width
  std::vector<Guide> guides;
  std::vector<Band> bands;
  std::string bands_label;  ///< in the legend, when there are bands
};

/// The SVG text. Series may have any length, none included; colours follow their order.
std::string line_chart(const std::vector<Series>& series, const ChartOptions& options);

}  // namespace antegrad
