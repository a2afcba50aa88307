#pragma once

/// \file
/// Plans that save everything that is alive at some places of the forward, as checkpoints do. A
/// price alone never finds these in a chain.

#include <vector>

#include "partition/budget/candidates.h"
#include "partition/budget/price.h"

namespace antegrad::budget {

/// Which of the values that cross a place are saved there.
enum class Crossing : uint8_t {
  all,
  /// those that are read before the next place; recurrent networks would keep the others for long
  soon,
};

/// For each of these numbers of segments: finds places of about equal time with the fewest bytes
/// that cross them, saves those at no price, and sweeps prices for the rest (at most 2^depth
/// prices).
std::vector<Plan> checkpoint_plans(const Problem& problem, const Candidates& candidates,
                                   PriceCuts& cuts, Crossing crossing,
                                   const std::vector<int32_t>& segments, int depth);

}  // namespace antegrad::budget
