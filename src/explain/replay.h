#pragma once

/// \file
/// Derives the decisions of a graph file again and compares them with what it recorded.

#include <string>
#include <vector>

#include "explain/record.h"
#include "graph/graph_file.h"

namespace antegrad {

/// The partition of a joint graph that `choice` leads to: passes, then the partitioner. Throws GraphError for a graph
/// without gradients or primals, BudgetError when no plan fits, OptionError for an unknown machine.
Partition partition_by(Graph joint, const PartitionChoice& choice);

struct Replayed {
  std::string name;
  PartitionRecord then;
  PartitionRecord now;
  std::vector<std::string> differences;  ///< one a line; none: the same decisions
};

/// Throws GraphError for a file without a record, and what partition_by() throws.
Replayed replay(const GraphFile& file);

std::string to_text(const Replayed& replayed);

}  // namespace antegrad
