#pragma once

/// \file
/// Which nodes of a graph would form one kernel.
///
/// A group is a set of nodes that generated code can compute in the same loops, each value in registers where only the
/// group reads it. Rules, for any two nodes of a group that share a value:
///  - fusing.h allows the pair, and loops.h has loops for both: pointwise nodes, factories, draws, and reductions over
///    the last dimensions, before or behind others; a reduction over the first dimensions only ends a group;
///  - they are of one phase and one device;
///  - they have as many elements, or one is broadcast and nobody else reads it; behind a reduction as many as it
///    makes or as it reads;
///  - what a gather picks from is in memory, and so is what a view shows in another order to more than one reader.
/// And for a group as a whole: no path leaves it and comes back, at most 64 nodes compute.
///
/// Views compute nothing: they stand in the group of what they show when that is generated, of their phase too,
/// and in none otherwise.
///
/// Greedy: pairs are joined in the order of the bytes between them, the most first, then in the graph's order. So the
/// result is the same for the same graph, and time is near-linear in its size. The graph must be verified; it
/// may be a joint graph, a forward or a backward.
///
/// Nothing lowers groups to kernels yet. What runs, and what peaks are simulated for, is the graph node by node.

#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace antegrad {

struct FusionGroup {
  std::vector<int32_t> nodes;  ///< positions in Graph::nodes, ascending, views among them
  bool generated = false;      ///< or else one node that calls a kernel of its own
  int64_t bytes_read = 0;      ///< from memory, each storage once
  int64_t bytes_written = 0;
  int64_t bytes_vanished = 0;  ///< made and read in the group alone, so never written
};

struct FusionGroups {
  std::vector<int32_t> of_node;     ///< by position: index into `groups`, or -1
  std::vector<FusionGroup> groups;  ///< in an order in which they can run
};

/// `symbols`: values of the graph's symbols, by SymbolId.
FusionGroups fusion_groups(const Graph& graph, const std::vector<int64_t>& symbols = {});

}  // namespace antegrad
