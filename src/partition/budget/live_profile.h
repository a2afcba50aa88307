#pragma once

/// \file
/// Live bytes per step, with fast range queries: the maximum and the excess over a range after
/// adding a constant to it.
///
/// Blocks of steps store their maximum, minimum and sum. Bytes are integers in doubles, so sums
/// are exact.

#include <cstddef>
#include <limits>
#include <span>
#include <vector>

namespace antegrad::budget {

class LiveProfile {
 public:
  /// The result for a range of steps.
  struct Load {
    double peak = 0;
    double excess = 0;  ///< bytes above the budget, summed over steps
  };

  /// By step: bytes allocated for it, bytes that it takes while it runs, and bytes freed after it.
  void build(std::span<const double> made, std::span<const double> scratch,
             std::span<const double> freed);
  void set_budget(double bytes) { budget_ = bytes; }

  size_t steps() const { return live_.size(); }
  /// While a step runs.
  double live(size_t step) const { return live_[step]; }

  /// Includes the steps from `begin` to `end` (exclusive), with so many bytes added to each.
  void count(size_t begin, size_t end, double more, Load& load) const;
  /// Includes an additional step, before step `before`, with so many bytes above those alive then.
  void count_new(size_t before, double more, Load& load) const;

 private:
  std::vector<double> live_;   // by step: while it runs
  std::vector<double> after_;  // by step: after it freed what it reads last
  std::vector<double> block_max_, block_min_, block_sum_;
  double budget_ = std::numeric_limits<double>::max();
};

}  // namespace antegrad::budget
