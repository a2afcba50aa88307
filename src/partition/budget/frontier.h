#pragma once

/// \file
/// The frontier of a graph: for each peak the fastest plan that was found, built once by a fixed recipe.
///
/// Recipe (docs/budget.md): plans for all prices, checkpoints, and compositions of segments; then, along a fixed
/// ladder of budgets from the largest peak to the smallest, greedy descents, exchanges and searches in windows. Graphs
/// with few values to decide are solved (partition/budget/exact.h) as far as a limit allows. What is
/// found with less effort comes first, and where plans may pack values, what is found without: neither effort nor leave to
/// pack makes an answer worse. Seeds
/// and limits are fixed, and limits count measurements, so that a graph has one frontier on every machine; a
/// budget only picks from it, so that lower budgets never give higher peaks or faster steps.

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
  /// Told now and then how far it is, from 0 to 1, on the thread that builds.
  std::function<void(double)> progress;
};

struct Frontier {
  int64_t eager_peak = 0;  ///< when all that the backward reads is saved
  int64_t floor = 0;       ///< no plan gets below
  int64_t measured = 0;    ///< plans that were measured
  int64_t work = 0;
  Archive archive;
};

Frontier build_frontier(const Problem& problem, const FrontierOptions& options = {});

}  // namespace antegrad::budget
