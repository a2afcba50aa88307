#pragma once

/// \file
/// The best plans that were seen, by peak: what a budget picks from.
///
/// Keeps, for each step of a fine scale of peaks, the fastest plan at or below it; of equally fast ones that
/// with the lowest peak. So an answer never gets slower when the budget grows, nor its peak lower. Plans that
/// measure the same are kept in the order in which they came.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "partition/budget/simulator.h"

namespace antegrad::budget {

struct PlanPoint {
  int64_t peak = 0;
  int64_t extra = 0;  ///< picoseconds, see Measure
  std::shared_ptr<const Plan> plan;
};

class Archive {
 public:
  /// `highest`: a peak above which plans are of no interest beyond being there.
  explicit Archive(int64_t highest);

  /// Takes the plan with the changes on top, where it is better than what is there.
  void offer(const Measure& measure, const Plan& plan, std::span<const Change> changes = {});
  /// The fastest plan with at most this peak; nothing when there is none.
  std::optional<PlanPoint> at_most(int64_t peak) const;
  /// The plan with the lowest peak. There must be one.
  const PlanPoint& smallest() const { return smallest_; }
  bool empty() const { return !smallest_.plan; }
  /// All that at_most() can return, by falling peak.
  std::vector<PlanPoint> points() const;
  int64_t offers() const { return offers_; }

 private:
  size_t step_of(int64_t peak) const;
  bool is_better(const Measure& measure, const PlanPoint& than) const;

  int64_t width_;
  int64_t offers_ = 0;
  std::vector<PlanPoint> best_;  // by step: at or below it
  PlanPoint smallest_;
};

}  // namespace antegrad::budget
