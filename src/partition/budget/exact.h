#pragma once

/// \file
/// Best plans, proven: what the search is measured against, on graphs with a few dozen values to decide.
///
/// Branch and bound over what is saved and what is computed again. Values that are computed again and then
/// forgotten (windows) are left out: the answer is the best among plans that compute each value again at
/// most once.

#include <cstdint>
#include <optional>

#include "partition/budget/archive.h"
#include "partition/budget/problem.h"

namespace antegrad::budget {

struct ExactLimits {
  /// Partial plans that are bounded before the search gives up, some microseconds each.
  int64_t measured = 1'000'000;
};

struct ExactAnswer {
  /// Nothing when no plan was found: if proven, there is none.
  std::optional<PlanPoint> best;
  bool proven = false;   ///< nothing is better; or else the limit was reached
  int64_t measured = 0;  ///< partial plans that were bounded
};

/// The fastest plan with at most that peak. `incumbent`: one that is known to keep to it; the answer is this one when
/// nothing is faster. The better it is the faster the proof.
ExactAnswer solve_exactly(const Problem& problem, int64_t budget, const ExactLimits& limits = {},
                          std::optional<PlanPoint> incumbent = {});

/// The plan with the lowest peak. `incumbent`: as above.
ExactAnswer smallest_exactly(const Problem& problem, const ExactLimits& limits = {},
                             std::optional<PlanPoint> incumbent = {});

}  // namespace antegrad::budget
