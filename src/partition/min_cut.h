#pragma once

/// \file
/// The minimum-cut partition: saves the cheapest set of values from which the backward can be
/// computed. Values that are cheap to recompute need not be saved.
///
/// The joint graph becomes a network (rules.h defines what may run again and what saving costs).
/// Its minimum cut nearest to the backward is the saved set. Rules and weights are those of
/// AOTAutograd (torch/_functorch/partitioners.py, docs/partition.md), with some additions.
///
/// Run no_ops(), size_only_inputs(), cse() and dce() (passes/) before. Time is about linear in the
/// size of the graph.

#include <cstdint>
#include <vector>

#include <antegrad/partition.h>

#include "partition/partition.h"

namespace antegrad {

/// `symbols`: values that the graph's symbols count as, by SymbolId; missing ones count as 4096.
/// The result has a decision for each value that the backward reads from the forward or
/// recomputes. A graph without gradients gives the result of default_partition(). For `seconds`
/// and exceptions see ratio_cut() (ratio_budget.h).
Partition min_cut_partition(Graph joint, const MinCutOptions& options = {},
                            const std::vector<int64_t>& symbols = {},
                            const std::vector<double>& seconds = {});

}  // namespace antegrad
