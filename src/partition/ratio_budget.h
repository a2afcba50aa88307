#pragma once

/// \file
/// The minimum cut under a memory budget that is a ratio, as the reference's `activation_memory_budget`: 1 is what
/// the minimum cut saves, 0 is nothing but the inputs, and between them time is given for memory.
///
/// The way is the reference's (torch/_functorch/partitioners.py). The range goes from the bytes of all primals (0) to
/// what the minimum cut saves, primals among it (1). Below 1
///  1. the cut is sought without the bans used_far_apart, long_fusible_chains and materialized_backward: taken when it
///     needs less than the ratio;
///  2. and without not_in_allowlist: the same;
///  3. of the nodes that are banned then, a knapsack keeps the most time in the ratio of the range; bans of the others
///     are lifted, and the cut is sought once more.
/// Memory of this kind is bytes of saved tensors, not a peak, and the third step does not come back to see what its cut
/// saves: a budget is a wish. For a limit in bytes of peak there is another partitioner.
///
/// Run the passes that min_cut.h names before.

#include <cstdint>
#include <vector>

#include <antegrad/partition.h>

#include "graph/graph.h"
#include "partition/cut_solution.h"
#include "partition/steps.h"

namespace antegrad {

/// Throws OptionError on a ratio out of range and on a solver that is not there.
void check_ratio(const MinCutOptions& options);

/// What is saved under MinCutOptions::activation_memory_budget, decided as above; at 1 what the rules alone save. Values
/// that a lifted ban has computed again have the rule "memory_budget". What must not run twice (docs/partition.md: effect
/// to leaves_checkpoint, prefer_save excepted; unknown_operator, small_random) is saved under any ratio.
/// `seconds`: by position in Graph::nodes, for RuntimeEstimator::profile. Throws what check_ratio()
/// throws, and OptionError on seconds of another length than the nodes.
CutSolution ratio_cut(const StepGraph& steps, const MinCutOptions& options,
                      const std::vector<double>& seconds = {});

struct RatioPoint {
  double ratio = 0;
  /// What is computed again because of the ratio, in the estimator's unit: operations, nodes, or seconds.
  double recomputed = 0;
  double memory = 0;        ///< where the saved tensors lie in the range; may be below 0
  int64_t saved_bytes = 0;  ///< primals among them
};

/// The reference's picture of what a ratio buys: the knapsack of step 3 for the ratios 0, 1/steps, ..., 1, without
/// the shortcuts 1 and 2. Empty for a graph without gradients, and for one whose minimum cut saves no more bytes than
/// its primals have. The ratio in `options` is not read; `symbols` as in min_cut_partition().
std::vector<RatioPoint> ratio_curve(const Graph& joint, const MinCutOptions& options = {},
                                    const std::vector<int64_t>& symbols = {}, int32_t steps = 20,
                                    const std::vector<double>& seconds = {});

}  // namespace antegrad
