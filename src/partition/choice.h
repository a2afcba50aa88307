#pragma once

/// \file
/// From a joint graph and the user's options to a partition. The only place that knows all
/// partitioners.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <antegrad/partition.h>

#include "graph/graph.h"
#include "memory/byte_rules.h"
#include "partition/hooks/packings.h"
#include "partition/partition.h"

namespace antegrad {

/// Everything that decides about a partition, except the graph. A value.
struct PartitionChoice {
  Partitioner partitioner = Partitioner::as_written;
  MinCutOptions min_cut;  ///< for Partitioner::min_cut
  BudgetOptions budget;   ///< for Partitioner::budget
  std::string
      machine;  ///< for Partitioner::budget and machine_named(); empty: see budget::machine_of()
  ByteRules rules;  ///< values of the graph's symbols, and scratch memory of its nodes
  /// Seconds by Node::id, if nodes were timed. Missing or negative: from a roofline.
  std::vector<double> seconds;
  Packings packings;  ///< for Partitioner::budget: ways to pack saved values
  /// True: the graph in the file is as captured, and run_joint_passes() precede the partition.
  /// False: only dce().
  bool simplify = true;
};

/// Whether the choice needs measured times: PartitionChoice::seconds.
bool wants_seconds(const PartitionChoice& choice);

/// By position in Graph::nodes: measured seconds, or else those of a roofline. Throws OptionError
/// for an unknown machine.
std::vector<double> seconds_by_position(const Graph& joint, const PartitionChoice& choice);

/// The frontier data from which a plan for a budget was chosen.
struct PlannedBudget {
  int64_t bytes = 0;           ///< the budget; a share is converted to bytes
  int64_t eager_peak = 0;      ///< the peak if all that the backward reads is saved
  int64_t smallest = 0;        ///< the smallest peak of a known plan
  double recompute_share = 0;  ///< of the time of forward and backward without recomputation
};

struct Partitioned {
  Partition partition;
  std::optional<PlannedBudget> planned;  ///< for Partitioner::budget
};

/// `joint`: verified, after the passes that the choice names. A graph without gradients gets
/// default_partition(). Throws BudgetError if no plan fits, OptionError for an unknown machine,
/// and what ratio_cut() throws.
Partitioned partition_for(const Graph& joint, const PartitionChoice& choice);

}  // namespace antegrad
