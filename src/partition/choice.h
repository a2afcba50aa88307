#pragma once

/// \file
/// From a joint graph and what its user chose to a partition: the one place that knows all partitioners.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <antegrad/partition.h>

#include "graph/graph.h"
#include "memory/byte_rules.h"
#include "partition/packings.h"
#include "partition/partition.h"

namespace antegrad {

/// All that decides about a partition, but for the graph. A value.
struct PartitionChoice {
  Partitioner partitioner = Partitioner::as_written;
  MinCutOptions min_cut;  ///< of Partitioner::min_cut
  BudgetOptions budget;   ///< of Partitioner::budget
  std::string
      machine;  ///< of Partitioner::budget, for machine_named(); empty: see budget::machine_of()
  ByteRules rules;  ///< values of the graph's symbols, and scratch memory of its nodes
  /// Seconds by Node::id, where nodes were timed; below 0, and missing: a roofline says it.
  std::vector<double> seconds;
  Packings packings;  ///< of Partitioner::budget: ways to keep what is saved in other bytes
  /// The graph in the file is as it was captured: run_joint_passes() come before the partition. Or else only dce().
  bool simplify = true;
};

/// Whether the choice is by times that are measured: PartitionChoice::seconds.
bool wants_seconds(const PartitionChoice& choice);

/// By position in Graph::nodes: what was measured, and what a roofline says of the others. Throws OptionError for an
/// unknown machine.
std::vector<double> seconds_by_position(const Graph& joint, const PartitionChoice& choice);

/// What a plan for a budget was picked from.
struct PlannedBudget {
  int64_t bytes = 0;       ///< the budget; a share made into bytes
  int64_t eager_peak = 0;  ///< when all that the backward reads is saved
  int64_t smallest = 0;    ///< peak that a plan is known for
  double recompute_share =
      0;  ///< of the time that forward and backward take when nothing runs twice
};

struct Partitioned {
  Partition partition;
  std::optional<PlannedBudget> planned;  ///< of Partitioner::budget
};

/// `joint`: verified, after the passes that the choice names. One without gradients gets default_partition(). Throws
/// BudgetError when no plan fits, OptionError for an unknown machine and what ratio_cut() refuses.
Partitioned partition_for(const Graph& joint, const PartitionChoice& choice);

}  // namespace antegrad
