#pragma once

/// \file
/// Live memory over the course of a step, as an SVG: measured and predicted lines, and several
/// partitions of one graph, in one picture.

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "memory/peak.h"

namespace antegrad {

/// Live bytes at consecutive moments.
struct LiveSeries {
  std::string name;
  std::vector<int64_t> live;
  bool dashed = false;  ///< for example for predictions
  /// Position at which the backward starts, if known.
  std::optional<size_t> backward_start;
  std::vector<std::string> ops = {};  ///< by position, or none: the operator that runs there
  /// Ranges of positions (end exclusive) with recomputed operators. Views do not count.
  std::vector<std::pair<size_t, size_t>> again = {};
};

/// The series of a simulated timeline. `recomputed`: Node::id of nodes that kernels may have taken
/// in. A kernel has the id of its last node; it counts as recomputed if that one is.
LiveSeries live_series(std::string name, const Timeline& timeline,
                       const std::set<int32_t>& recomputed = {});

struct TimelineOptions {
  std::string title;
  std::optional<int64_t> budget = {};  ///< a horizontal line, in bytes
  /// If true, series of different lengths are stretched to the whole width, for measured and
  /// predicted lines; otherwise all share an axis of positions.
  bool stretched = true;
};

/// The peak of each series is circled and named in the legend, with its operator if known. The
/// recomputed ranges of the last series are shaded.
std::string timeline_svg(const std::vector<LiveSeries>& series, const TimelineOptions& timeline);

}  // namespace antegrad
