#pragma once

/// \file
/// Positions and labels of the ticks of an axis.

#include <string>
#include <vector>

#include "explain/line_chart.h"

namespace antegrad {

/// A range of data mapped to a range of pixels. `from` and `to` are widened to round numbers.
struct Axis {
  double from = 0;
  double to = 1;
  double step = 0.2;  ///< between ticks, in data
  double scale = 1;   ///< labels show data divided by this
  std::string unit;   ///< "MiB"; empty for plain numbers
  double pixel_from = 0;
  double pixel_to = 1;

  double pixel(double value) const {
    return pixel_from + (value - from) / (to - from) * (pixel_to - pixel_from);
  }
  std::vector<double> ticks() const;
  /// "12.5", without the unit.
  std::string label(double value) const;
};

/// An axis over the data from `low` to `high` with at most `max_ticks` ticks at 1, 2 or 5 times a
/// power of ten, in the unit that suits `high`.
Axis make_axis(double low, double high, AxisUnit unit, int max_ticks);

}  // namespace antegrad
