#pragma once

/// \file
/// How many bytes are alive at each of many steps, so that it is soon told what a range of them would come to with
/// some bytes more or less.
///
/// Blocks of steps know their largest, their smallest and their sum. Bytes are integers in doubles, so sums are exact.

#include <cstddef>
#include <limits>
#include <span>
#include <vector>

namespace antegrad::budget {

class LiveProfile {
 public:
  /// What steps come to.
  struct Load {
    double peak = 0;
    double excess = 0;  ///< bytes over the budget, summed over steps
  };

  /// By step: what is there from it on, what it takes while it runs, and what is gone after it.
  void build(std::span<const double> made, std::span<const double> scratch,
             std::span<const double> freed);
  void set_budget(double bytes) { budget_ = bytes; }

  size_t steps() const { return live_.size(); }
  /// While a step runs.
  double live(size_t step) const { return live_[step]; }

  /// Counts the steps from `begin` up to `end`, with so many bytes more in each.
  void count(size_t begin, size_t end, double more, Load& load) const;
  /// Counts a step that is not there: one before step `before`, with so many bytes more than are alive then.
  void count_new(size_t before, double more, Load& load) const;

 private:
  std::vector<double> live_;   // by step: while it runs
  std::vector<double> after_;  // by step: after what it reads last is freed
  std::vector<double> block_max_, block_min_, block_sum_;
  double budget_ = std::numeric_limits<double>::max();
};

}  // namespace antegrad::budget
