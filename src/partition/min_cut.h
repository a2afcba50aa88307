#pragma once

/// \file
/// The minimum-cut partition: saves the cheapest set of values from which the backward can be
/// computed, where what is cheap to compute again need not be saved.
///
/// The joint graph becomes a network (rules.h says what may run again and what saving costs); its
/// minimum cut nearest to the backward is the saved set. Rules and weights are those of the reference
/// (torch/_functorch/partitioners.py, docs/partition.md), and some of ours.
///
/// Run no_ops(), size_only_inputs(), cse() and dce() (passes/) before. Takes time about linear in the
/// size of the graph.

#include <cstdint>
#include <vector>

#include <antegrad/partition.h>

#include "partition/partition.h"

namespace antegrad {

/// `symbols`: what the graph's symbols count as, by SymbolId; those without an entry as 4096.
/// The result has a decision for each value that the backward reads from the forward or computes
/// again. A graph without gradients gives what default_partition() gives. For `seconds` and what is thrown see
/// ratio_cut() (ratio_budget.h).
Partition min_cut_partition(Graph joint, const MinCutOptions& options = {},
                            const std::vector<int64_t>& symbols = {},
                            const std::vector<double>& seconds = {});

}  // namespace antegrad
