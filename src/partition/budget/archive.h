#pragma once

/// \file
/// The best plans that were seen, by peak: what a budget picks from.
///
/// Keeps each plan that no other one beats in both peak and time, so that an answer never gets slower when the budget
/// grows, nor its peak lower. Of plans that measure the same the first one stays.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "partition/budget/plan.h"

namespace antegrad::budget {

struct PlanPoint {
  int64_t peak = 0;
  int64_t extra = 0;  ///< picoseconds, see Measure
  std::shared_ptr<const Plan> plan;
};

class Archive {
 public:
  /// Takes the plan with the changes on top, where it is better than what is there.
  void offer(const Measure& measure, const Plan& plan, std::span<const Change> changes = {});
  /// The fastest plan with at most this peak; nothing when there is none.
  std::optional<PlanPoint> at_most(int64_t peak) const;
  /// The plan with the lowest peak. There must be one.
  const PlanPoint& smallest() const { return points_.begin()->second; }
  /// All that at_most() can return, by falling peak.
  std::vector<PlanPoint> points() const;

 private:
  std::map<int64_t, PlanPoint> points_;  // by peak; the higher the faster
};

}  // namespace antegrad::budget
