#pragma once

/// \file
/// The stages `plan` and `split` of a compilation: what is measured, what the partitioner decides,
/// and what hooks on saved tensors add to that.

#include <antegrad/options.h>
#include <antegrad/saved_tensors.h>

#include <memory>
#include <optional>

#include "hooks/captured_hooks.h"
#include "ops/attrs.h"
#include "partition/partitioner.h"
#include "passes/pass_manager.h"

namespace antegrad::compiler {

/// The choice that options make, without measurements.
PartitionChoice choice_of(const Options& options);

/// What was decided about a joint graph. A value.
struct PlannedPartition {
  PartitionChoice choice;      ///< as it was carried out
  Partition partition;         ///< without hooks
  hooks::CapturedHooks hooks;  ///< to be applied to it
  std::optional<PlannedBudget> budget;
  double milliseconds = 0;  ///< that planning for the budget took
};

/// What the partitioner wants measured on this machine. `tables`: of the joint graph.
Measurements measure_for(const Graph& joint, const ops::AttrTables& tables, const Options& options);

/// `measured`: here, or wherever the same partition was made. `hooks`: those of the call that are
/// inlined; null for none. `first_node`: ids from here on are no node's. Throws BudgetError where
/// no plan keeps the budget with these hooks, and what hooks::capture_hooks() throws.
PlannedPartition plan_partition(const Graph& joint, Measurements measured, const Options& options,
                                const std::shared_ptr<const detail::HookPair>& hooks,
                                int32_t first_node, const PassContext& passes);

}  // namespace antegrad::compiler
