#pragma once

/// \file
/// Nodes that call a generated kernel (lower/kernel_graph.h).
///
/// Inputs of such a node are what the kernel reads, outputs what it writes. Its arguments are those
/// inputs, the place of the kernel in a list beside the graph, and which output may take the memory
/// of which input.

#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace antegrad {

/// An output that may lie in the memory of an input, if nobody reads that afterwards. Positions in
/// Node::outputs and Node::inputs.
struct MemoryReuse {
  int32_t output = -1;
  int32_t input = -1;
  friend bool operator==(const MemoryReuse&, const MemoryReuse&) = default;
};

/// The operator of generated nodes. Traits: known, and no other.
Op generated_op();
bool is_generated(const Node& node);

/// Sets operator and arguments of a node that has its inputs.
void make_generated(Node& node, int64_t place, const std::vector<MemoryReuse>& reuses);
/// Only of a generated node.
int64_t place_of_kernel(const Node& node);
std::vector<MemoryReuse> memory_reuses(const Node& node);

}  // namespace antegrad
