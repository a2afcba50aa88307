#pragma once

/// \file
/// Proven best plans, against which the search is measured, on graphs with a few dozen values to
/// decide.
///
/// Branch and bound over saving and recomputing. Values that are recomputed and then freed early
/// (windows) are left out: the answer is the best among plans that recompute each value at most
/// once.

#include <cstdint>
#include <optional>

#include "partition/budget/archive.h"
#include "partition/budget/problem.h"

namespace antegrad::budget {

struct ExactLimits {
  /// Number of partial plans that are bounded before the search gives up; some microseconds each.
  int64_t measured = 1'000'000;
};

struct ExactAnswer {
  /// Nothing if no plan was found; if proven, there is none.
  std::optional<PlanPoint> best;
  bool proven = false;   ///< true: nothing is better; false: the limit was reached
  int64_t measured = 0;  ///< partial plans that were bounded
};

/// The fastest plan with at most that peak. `incumbent`: a plan known to meet it, and the answer
/// if nothing is faster. A better incumbent makes the proof faster.
ExactAnswer solve_exactly(const Problem& problem, int64_t budget, const ExactLimits& limits = {},
                          std::optional<PlanPoint> incumbent = {});

/// The plan with the lowest peak. `incumbent`: as above.
ExactAnswer smallest_exactly(const Problem& problem, const ExactLimits& limits = {},
                             std::optional<PlanPoint> incumbent = {});

}  // namespace antegrad::budget
