#pragma once

/// \file
/// Dynamic programming over cut points of the forward. Each segment between two of them takes one
/// of a few plans, so a plan may save much in one part of the model and little in another.
///
/// For each pair of cut points and each plan of the family, one simulation gives the peak inside
/// the segment's part of the backward, the bytes that it adds to what is saved, and its time. A
/// state is a list of pairs (saved bytes, time) of which none is better in both.

#include <cstdint>
#include <vector>

#include "partition/budget/candidates.h"
#include "partition/budget/simulator.h"

namespace antegrad::budget {

struct SegmentLimits {
  int32_t cut_points;
  int32_t plans;  ///< of the family, evenly spaced
};

/// One plan for each budget that such a composition reaches.
std::vector<Plan> segment_plans(Simulator& simulator, const Candidates& candidates,
                                const std::vector<Plan>& family,
                                const std::vector<int64_t>& budgets, const SegmentLimits& limits);

}  // namespace antegrad::budget
