#pragma once

/// \file
/// Repeats the decisions of a graph file and compares them with its record.

#include <string>
#include <vector>

#include "explain/record.h"
#include "graph/graph_file.h"

namespace antegrad {

/// The graph that a partition starts from: PartitionChoice::simplify.
Graph simplified(Graph joint, const PartitionChoice& choice);

/// The partition of a joint graph by `choice`: passes, then the partitioner. Throws GraphError for
/// a graph without gradients or primals, BudgetError if no plan fits, OptionError for an unknown
/// machine.
Partition partition_by(Graph joint, const PartitionChoice& choice);

struct Replayed {
  std::string name;
  PartitionRecord then;
  PartitionRecord now;
  std::vector<std::string> differences;  ///< one per line; empty: the same decisions
};

/// Throws GraphError for a file without a record, and what partition_by() throws.
Replayed replay(const GraphFile& file);

std::string to_text(const Replayed& replayed);

}  // namespace antegrad
