#pragma once

/// \file
/// The minimum cut under a ratio budget, AOTAutograd's `activation_memory_budget`: 1 is what the
/// minimum cut saves, 0 is nothing but the inputs, and values between trade time for memory.
///
/// The algorithm is AOTAutograd's (torch/_functorch/partitioners.py). The range goes from the
/// bytes of all primals (0) to what the minimum cut saves, primals included (1). Below 1:
///  1. The cut is computed without the bans used_far_apart, long_fusible_chains and
///     materialized_backward. It is the answer if it needs less than the ratio.
///  2. The same, also without not_in_allowlist.
///  3. Among the nodes that are still banned, a knapsack keeps the most time within the ratio of
///     the range. Bans of the others are lifted, and the cut is computed once more.
/// Memory here is bytes of saved tensors, not a peak, and the third step does not check what its
/// cut saves: the budget is a target, not a limit. Partitioner::budget limits the peak.
///
/// Run the passes that min_cut.h names before.

#include <cstdint>
#include <vector>

#include <antegrad/partition.h>

#include "graph/graph.h"
#include "partition/cut_solution.h"
#include "partition/steps.h"

namespace antegrad {

/// Throws OptionError for a ratio out of range and for a solver that is not available.
void check_ratio(const MinCutOptions& options);

/// The cut under MinCutOptions::activation_memory_budget, decided as above; at 1 the cut by the
/// rules alone. Values recomputed through a lifted ban have the rule "memory_budget". What must
/// not run twice is saved under any ratio (docs/partition.md: effect to leaves_checkpoint, except
/// prefer_save; unknown_operator; small_random). `seconds`: by position in Graph::nodes, for
/// RuntimeEstimator::profile. Throws what check_ratio() throws, and OptionError if the number of
/// seconds differs from that of nodes.
CutSolution ratio_cut(const StepGraph& steps, const MinCutOptions& options,
                      const std::vector<double>& seconds = {});

struct RatioPoint {
  double ratio = 0;
  /// Recomputation caused by the ratio, in the estimator's unit: operations, nodes, or seconds.
  double recomputed = 0;
  double memory = 0;        ///< position of the saved tensors in the range; may be negative
  int64_t saved_bytes = 0;  ///< including primals
};

/// The points of AOTAutograd's Pareto picture: the knapsack of step 3 for the ratios 0, 1/steps,
/// ..., 1, without the shortcuts 1 and 2. Empty for a graph without gradients, and for one whose
/// minimum cut saves no more bytes than its primals have. The ratio in `options` is ignored;
/// `symbols` as in min_cut_partition().
std::vector<RatioPoint> ratio_curve(const Graph& joint, const MinCutOptions& options = {},
                                    const std::vector<int64_t>& symbols = {}, int32_t steps = 20,
                                    const std::vector<double>& seconds = {});

}  // namespace antegrad
