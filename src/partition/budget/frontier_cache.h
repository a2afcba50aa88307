#pragma once

/// \file
/// A cache of the frontiers built in this process.
///
/// A frontier depends only on the problem and the effort, and callers return with the same graph:
/// for another budget, after a change of guards, on another thread.

#include <memory>

#include "partition/budget/frontier.h"
#include "partition/budget/problem.h"

namespace antegrad::budget {

/// Number of frontiers kept. The least recently used goes first.
inline constexpr size_t kKeptFrontiers = 16;

/// The result of build_frontier(). Thread-safe. Threads that ask for the same one concurrently may
/// each build it.
std::shared_ptr<const Frontier> frontier_of(const Problem& problem, const FrontierOptions& options);

/// A frontier of this cache that was built for the problem, or one that is carried over from other
/// sizes of the graph (carry.h); null if there is none. Thread-safe.
struct KnownFrontier {
  std::shared_ptr<const Frontier> frontier;
  bool carried = false;
};
KnownFrontier known_frontier(const Problem& problem, BudgetEffort effort);

}  // namespace antegrad::budget
