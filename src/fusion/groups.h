#pragma once

/// \file
/// Decides which nodes of a graph would form one kernel.
///
/// A group is a set of nodes that generated code can compute in the same loops, with each value in
/// registers if only the group reads it. Rules for any two nodes of a group that share a value:
///  - loops.h has loops for both: pairs that fusing.h allows (pointwise nodes, factories, draws,
///    and reductions over the last dimensions, before or after others; a reduction over the first
///    dimensions can only end a group), and operators over rows;
///  - they are on the same device and, in a joint graph, have the same phase;
///  - they have the same number of elements, or one is broadcast and nobody else reads it; after a
///    reduction, as many elements as it makes or as it reads;
///  - nobody reads a result that has values of the group side by side (cat, stack);
///  - they read at most two values that others make after the first node: what a node reads would
///    stay in memory until the last of these is made;
///  - what a gather reads from is in memory, and so is a value that a view shows in another order
///    to more than one reader.
/// Rules for a group as a whole: no path leaves it and returns, and at most 64 nodes compute.
///
/// Views compute nothing. A view belongs to the group of its base if that is generated and, in a
/// joint graph, of the same phase; to none otherwise.
///
/// The algorithm is greedy: pairs are joined by falling number of bytes between them, then in the
/// graph's order. So the result is the same for the same graph, and time is near-linear in its
/// size. The graph must be verified. It may be a joint graph, a forward or a backward.
///
/// lower/kernel_graph.h makes kernels of groups.

#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace antegrad {

struct FusionGroup {
  std::vector<int32_t> nodes;  ///< positions in Graph::nodes, ascending, including views
  bool generated = false;      ///< otherwise one node that calls a kernel of its own
  int64_t bytes_read = 0;      ///< from memory, each storage once
  int64_t bytes_written = 0;
  int64_t bytes_vanished = 0;  ///< made and read only in the group, so never written
};

struct FusionGroups {
  std::vector<int32_t> of_node;     ///< by position: index into `groups`, or -1
  std::vector<FusionGroup> groups;  ///< in an order in which they can run
};

/// `symbols`: values of the graph's symbols, by SymbolId. `apart`, by position, if not empty: nodes
/// that stay out of groups, since generated code cannot compute them after all.
FusionGroups fusion_groups(const Graph& graph, const std::vector<int64_t>& symbols = {},
                           const std::vector<bool>& apart = {});

}  // namespace antegrad
