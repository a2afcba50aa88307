#pragma once

/// \file
/// Maximum flow and minimum cut of a directed network with integer capacities.
///
/// Dinic's method on flat arrays, without recursion, so deep networks need no stack. Exact: no
/// rounding. The same edges in the same order give the same answer.
///
/// Among all minimum cuts there is one whose source side is contained in that of every other, and
/// one whose sink side is. The caller chooses one of the two, so that the meaning of the network
/// decides ties, and not the order in which flow was found.

#include <cstdint>
#include <vector>

namespace antegrad {

/// Capacity of an edge that no cut may separate.
inline constexpr int64_t kInfiniteCapacity = int64_t{1} << 62;

struct FlowEdge {
  int32_t from = 0;
  int32_t to = 0;
  int64_t capacity = 0;
};

enum class NearestTo : uint8_t { source, sink };

struct FlowCut {
  /// Capacity of the edges from the source side to the sink side. kInfiniteCapacity if a path of
  /// infinite edges leads from source to sink, so that there is no cut.
  int64_t capacity = 0;
  std::vector<bool> on_source_side;  ///< by vertex; empty if there is no cut
};

/// The minimum cut nearest to one of the two ends. Vertices are 0 to `vertices` - 1; `source` and
/// `sink` differ. Parallel edges add up. Throws InternalError on a vertex out of range, a negative
/// capacity, or finite capacities that sum to kInfiniteCapacity or more.
FlowCut minimum_cut(int32_t vertices, const std::vector<FlowEdge>& edges, int32_t source,
                    int32_t sink, NearestTo nearest = NearestTo::sink);

}  // namespace antegrad
