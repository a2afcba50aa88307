#pragma once

/// \file
/// Durations as charts and reports write them.

#include <cstdint>
#include <string>

namespace antegrad {

struct TimeUnit {
  double seconds;
  const char* name;  ///< "ms"
};

/// The largest unit of which there is at least one.
const TimeUnit& time_unit(double seconds);

/// "12.3 ms", "450 us", "0 s".
std::string time_text(double seconds);

/// Plans count time in whole picoseconds.
constexpr double seconds(int64_t picoseconds) { return static_cast<double>(picoseconds) * 1e-12; }
constexpr double microseconds(int64_t picoseconds) {
  return static_cast<double>(picoseconds) * 1e-6;
}

}  // namespace antegrad
