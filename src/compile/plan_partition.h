#pragma once

/// \file
/// The stages `plan` and `split` of a compilation: measurements, the partitioner's decisions, and
/// hooks on saved tensors.

#include <antegrad/options.h>
#include <antegrad/saved_tensors.h>

#include <memory>
#include <optional>

#include "compile/lowering.h"
#include "hooks/captured_hooks.h"
#include "ops/attrs.h"
#include "partition/partitioner.h"
#include "passes/pass_manager.h"

namespace antegrad::compiler {

/// The decisions about a joint graph, as a value.
struct PlannedPartition {
  PartitionChoice choice;      ///< as applied
  Partition partition;         ///< before hooks are applied
  hooks::CapturedHooks hooks;  ///< to be applied to it
  LoweringRules lowering;      ///< to be applied to both graphs
  std::optional<PlannedBudget> budget;
  double milliseconds = 0;  ///< duration of planning for the budget
};

/// The measurements on this machine that the partitioner needs. `tables` are those of the joint
/// graph.
Measurements measure_for(const Graph& joint, const ops::AttrTables& tables, const Options& options);

/// `measured` comes from this machine, or from the one on which the same partition was made.
/// `hooks` are the inlined hooks of the call; null for none. Node ids from `first_node` on are
/// free. `carry`: PartitionChoice::carry. Plans for a budget count on the kernels of `lowering`; if
/// none keeps the budget with them, the one that comes nearest is returned. Throws BudgetError if
/// no plan keeps the budget with these hooks, and the errors of hooks::capture_hooks().
PlannedPartition plan_partition(Graph joint, Measurements measured, const Options& options,
                                const LoweringRules& lowering,
                                const std::shared_ptr<const detail::HookPair>& hooks,
                                int32_t first_node, bool carry, const PassContext& passes);

/// Captures the hooks of a plan whose partition is made: PlannedPartition::hooks. The other
/// parameters and errors are as in plan_partition().
void capture_hooks_of(PlannedPartition& planned, const Options& options,
                      const std::shared_ptr<const detail::HookPair>& hooks, int32_t first_node);

}  // namespace antegrad::compiler
