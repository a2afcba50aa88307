#pragma once

/// \file
/// What plans for a memory budget know of generated kernels, before there are any.

#include <cstdint>
#include <vector>

#include "compile/lowering.h"
#include "graph/graph.h"
#include "memory/byte_rules.h"
#include "partition/partition.h"
#include "partition/partitioner.h"

namespace antegrad::compiler {

/// Lets a plan count on kernels: a result that they keep in registers takes no memory, and running
/// its node again moves none. `fused`: by Node::id, as from fused_nodes(). `measured`: those of the
/// same graph without kernels. Without fused nodes, the choice is as without kernels.
void count_on_kernels(const Graph& joint, std::vector<bool> fused, const Measurements& measured,
                      PartitionChoice& choice);

/// The same by a model alone, where no times were measured: fused_nodes() and fused_seconds().
void expect_kernels(const Graph& joint, PartitionChoice& choice);

/// A partition, with its hooks, as kernels would run it.
struct WithKernels {
  int64_t peak = 0;  ///< bytes
  /// By Node::id: of the nodes on which the plan counted (ByteRules::fused), those whose result is
  /// in memory after all, although nothing saves it.
  std::vector<bool> in_memory = {};
  /// Groups whose kernels run behind the peak, although some of their nodes would run before: so
  /// what these read is live at the peak.
  LargeGroups at_peak = {};
};

/// Notes groups that are too large. Whether some of them were not noted before.
bool refuse(const LargeGroups& groups, LoweringRules& lowering);

/// Bytes of a partition, with its hooks, where no kernel runs.
int64_t peak_without_kernels(const Partition& partition, const ByteRules& rules);

/// As far as is known: see lowered_by_what_is_known(). `rules`: those of the plan.
WithKernels with_kernels(const Partition& partition, const LoweringRules& lowering,
                         ByteRules rules);

}  // namespace antegrad::compiler
