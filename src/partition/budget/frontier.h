#pragma once

/// \file
/// The frontier of a graph: for each peak the fastest known plan, built once by a fixed recipe.
///
/// Recipe (docs/budget.md): plans for all prices, checkpoints, and compositions of segments; then,
/// along a fixed ladder of budgets from the largest peak to the smallest, greedy descents,
/// exchanges and searches in windows. Graphs with few values to decide are solved
/// (partition/budget/exact.h) as far as a limit allows. The recipe first includes what less effort
/// finds and, if plans may pack values, what is found without packing. So neither more effort nor
/// packing makes an answer worse.
///
/// Seeds and limits are fixed, and limits count measurements, so a graph has one frontier on every
/// machine. A budget only selects from it, so lower budgets never give higher peaks or faster
/// steps.

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include <antegrad/partition.h>

#include "partition/budget/archive.h"
#include "partition/budget/problem.h"

namespace antegrad::budget {

struct FrontierOptions {
  BudgetEffort effort = BudgetEffort::quick;
  /// Called with the progress from 0 to 1, on the thread that builds.
  std::function<void(double)> progress;
};

struct Frontier {
  int64_t eager_peak = 0;  ///< the peak if all that the backward reads is saved
  int64_t floor = 0;       ///< no plan gets below this
  int64_t measured = 0;    ///< number of plans measured
  int64_t work = 0;
  Archive archive;
};

Frontier build_frontier(const Problem& problem, const FrontierOptions& options = {});

}  // namespace antegrad::budget
