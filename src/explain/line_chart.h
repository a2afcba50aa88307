#pragma once

/// \file
/// Draws line charts as one self-contained SVG text, readable on light and on dark pages
/// (prefers-color-scheme). Used for memory timelines, loss curves and Pareto fronts.

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace antegrad {

/// Points (x[i], y[i]), joined in order. A point that is not finite interrupts the line.
struct Series {
  std::string name;
  std::vector<double> x;
  std::vector<double> y;
  bool steps = false;  ///< hold each value until the next x, as for allocated bytes
  bool dots =
      false;  ///< draw the points themselves; a series of one point is also a dot in the legend
  bool dashed = false;
  std::optional<size_t> mark;       ///< a point to circle, e.g. the peak
  std::string mark_label;           ///< beside it
  std::vector<std::string> titles;  ///< by point, or none: shown by a browser under the mouse
};

/// A dotted line across the chart, with a label.
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

/// The kind of numbers on an axis.
enum class AxisUnit { plain, bytes, percent, seconds };

struct ChartOptions {
  std::string title;
  std::string x_label;
  std::string y_label;
  AxisUnit x_unit = AxisUnit::plain;
  AxisUnit y_unit = AxisUnit::plain;
  bool y_from_zero = true;
  double x_margin = 0;  ///< margin beside the data, as a share of their width
  std::vector<Guide> guides;
  std::vector<Band> bands;
  std::string bands_label;  ///< in the legend, if there are bands
};

/// The SVG text. There may be any number of series, including none. Colours follow their order.
std::string line_chart(const std::vector<Series>& series, const ChartOptions& options);

}  // namespace antegrad
