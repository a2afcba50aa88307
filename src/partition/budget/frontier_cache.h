#pragma once

/// \file
/// Frontiers that were built before in this process.
///
/// A frontier depends on nothing but the problem and the effort, and callers come back with the same graph: for another
/// budget, after a change of guards, on another thread.

#include <memory>

#include "partition/budget/frontier.h"
#include "partition/budget/problem.h"

namespace antegrad::budget {

/// How many are kept; those that were asked for longest ago go first.
inline constexpr size_t kKeptFrontiers = 16;

/// What build_frontier() returns. Thread-safe; threads that ask for the same one at once may each build it.
std::shared_ptr<const Frontier> frontier_of(const Problem& problem, const FrontierOptions& options);

}  // namespace antegrad::budget
