#pragma once

/// \file
/// Plans that keep all that is alive at some places of the forward, as checkpoints do: what a price alone never
/// finds in a chain.

#include <vector>

#include "partition/budget/candidates.h"
#include "partition/budget/price.h"

namespace antegrad::budget {

/// Which of the values that cross a place are kept there.
enum class Crossing : uint8_t {
  all,
  soon,  ///< those that are read before the next place: recurrent nets keep the others for long
};

/// For each of these numbers of segments: places of about equal time with the fewest bytes that cross them, kept at
/// no price, and a sweep of prices for the rest (prices: 2^depth at most).
std::vector<Plan> checkpoint_plans(const Problem& problem, const Candidates& candidates,
                                   PriceCuts& cuts, Crossing crossing,
                                   const std::vector<int32_t>& segments, int depth);

}  // namespace antegrad::budget
