#pragma once

/// \file
/// The best known plans by peak: what a budget selects from.
///
/// Keeps each plan that no other one beats in both peak and time. So a larger budget never gives a
/// slower plan, nor one with a lower peak. Among plans with equal measure the first one stays.

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
  /// Adds the plan with the changes applied, if it is better than what is there.
  void offer(const Measure& measure, const Plan& plan, std::span<const Change> changes = {});
  /// The fastest plan with at most this peak; nothing if there is none. `byte_time`: picoseconds
  /// that each byte of peak adds to a step.
  std::optional<PlanPoint> at_most(int64_t peak, double byte_time = 0) const;
  /// The plan with the lowest peak. The archive must not be empty.
  const PlanPoint& smallest() const { return points_.begin()->second; }
  /// All plans that at_most() can return, by falling peak.
  std::vector<PlanPoint> points() const;

 private:
  std::map<int64_t, PlanPoint> points_;  // by peak; a higher peak is faster
};

}  // namespace antegrad::budget
