#pragma once

/// \file
/// A plan as a record, and the same plan again from it.

#include <antegrad/options.h>
#include <antegrad/saved_tensors.h>

#include <memory>

#include "compile/plan_partition.h"
#include "explain/record.h"
#include "graph/graph.h"
#include "passes/pass_manager.h"

namespace antegrad::compiler {

/// Everything that was decided.
PartitionRecord record_of(const PlannedPartition& planned);

/// What was decided, applied to the graph that it was decided about. The other parameters are as
/// in plan_partition(). Throws GraphError for a record that does not fit the graph, with whose plan
/// something else happens than it says, or that record_of() did not make.
PlannedPartition planned_again(const PartitionRecord& record, Graph joint, const Options& options,
                               const LoweringRules& lowering,
                               const std::shared_ptr<const detail::HookPair>& hooks,
                               int32_t first_node, const PassContext& passes);

}  // namespace antegrad::compiler
