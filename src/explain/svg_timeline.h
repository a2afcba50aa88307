#pragma once

/// \file
/// Live memory over the course of a step, as an SVG: measured and predicted lines, and several partitions of one graph,
/// in one picture.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
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
  std::vector<std::string> ops = {};  ///< by position, or none: what runs there
  /// Positions from and to (exclusive) where operators run that ran before. Views do not count.
  std::vector<std::pair<size_t, size_t>> again = {};
};

/// The series of a simulated timeline.
LiveSeries live_series(std::string name, const Timeline& timeline);

struct TimelineOptions {
  std::string title;
  std::optional<int64_t> budget;  ///< a line across, in bytes
  /// Series of different lengths are stretched to the whole width, as measured and predicted ones want it; or else all
  /// share an axis of positions.
  bool stretched = true;
};

/// The peak of each series is circled and written in the legend, with its operator where that is known. Where the
/// last series runs things again is shaded.
std::string timeline_svg(const std::vector<LiveSeries>& series, const TimelineOptions& timeline);

inline std::string timeline_svg(const std::vector<LiveSeries>& series, const std::string& title) {
  return timeline_svg(series, TimelineOptions{title, {}, true});
}

}  // namespace antegrad
