#pragma once

/// \file
/// Maximum flow and minimum cut of a directed network with integer capacities.
///
/// Dinic's method on flat arrays, without recursion, so that deep networks need no stack. Exact: no
/// rounding anywhere. The same edges in the same order give the same answer.
///
/// Of all minimum cuts there is one whose source side lies within that of every other, and one whose
/// sink side does; the caller says which of the two it wants, so that ties are decided by what the
/// network means and not by how the flow was found.

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
  /// Capacity of the edges from the source side to the sink side; kInfiniteCapacity when a path of
  /// infinite edges leads from source to sink, so that there is no cut.
  int64_t capacity = 0;
  std::vector<bool> on_source_side;  ///< by vertex; empty when there is no cut
};

/// The minimum cut nearest to one of the two ends. Vertices are 0 to `vertices` - 1; `source` and
/// `sink` differ. Parallel edges add up. Throws InternalError on a vertex out of range, a negative
/// capacity, or finite capacities that sum to kInfiniteCapacity or more.
FlowCut minimum_cut(int32_t vertices, const std::vector<FlowEdge>& edges, int32_t source,
                    int32_t sink, NearestTo nearest = NearestTo::sink);

}  // namespace antegrad
