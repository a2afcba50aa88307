#pragma once

/// \file
/// Live memory over the course of a step, as an SVG: measured and predicted lines in one picture.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "memory/peak.h"

namespace antegrad {

/// Bytes alive at one moment after another.
struct LiveSeries {
  std::string name;
  std::vector<int64_t> live;
  bool dashed = false;  ///< e.g. for predictions
  /// Position at which the backward starts, when it is known.
  std::optional<size_t> backward_start;
};

/// The series of a simulated timeline.
LiveSeries live_series(std::string name, const Timeline& timeline);

/// The peak of each series is circled and written in the legend. Series of one length share an axis
/// of positions; series of different lengths are stretched to the whole width, and the axis says
/// so.
std::string timeline_svg(const std::vector<LiveSeries>& series, const std::string& title);

}  // namespace antegrad
