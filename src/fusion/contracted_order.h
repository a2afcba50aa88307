#pragma once

/// \file
/// A directed acyclic graph whose edges are contracted one after the other, and which stays
/// acyclic. It merges nodes into kernels.
///
/// Keeps a topological order of the contracted vertices and repairs it locally, as Pearce and
/// Kelly do for inserted edges (A Dynamic Topological Sort Algorithm for Directed Acyclic Graphs,
/// 2007). A contraction visits only vertices between the two in that order, and no more than a
/// limit. Beyond the limit it is refused, as if it made a cycle. So time is linear in vertices and
/// edges, times that limit in the worst case.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fusion/disjoint_sets.h"

namespace antegrad {

struct OrderEdge {
  int32_t from = 0;
  int32_t to = 0;        ///< > from
  bool between = false;  ///< its two ends must not become one vertex
};

class ContractedOrder {
 public:
  /// Vertices are 0 to `vertices` - 1, in a topological order. Throws InternalError on an edge
  /// that goes backwards.
  ContractedOrder(int32_t vertices, const std::vector<OrderEdge>& edges, int32_t limit = 1000);

  /// The vertex that represents all vertices contracted with `vertex`.
  int32_t find(int32_t vertex) { return sets_.find(vertex); }
  /// Merges two vertices that an edge joins. Returns false, and changes nothing, if an edge with
  /// `between` set joins them too, if another path leads from one to the other, or if finding out
  /// would exceed the limit. Returns true if they are merged already.
  bool contract(int32_t a, int32_t b);
  /// The position of a vertex in the order; the same for all vertices contracted with it.
  /// Positions are not dense.
  int32_t position(int32_t vertex) { return position_[find(vertex)]; }

 private:
  struct Neighbour {
    int32_t vertex = 0;
    bool between = false;
  };
  bool kept_apart(int32_t from, int32_t to);
  bool search(int32_t start, int32_t other, bool forward, std::vector<int32_t>& found);
  void unite(int32_t from, int32_t to, int32_t position);

  DisjointSets sets_;
  std::vector<int32_t> position_;  // by representative
  std::vector<std::vector<Neighbour>> after_;
  std::vector<std::vector<Neighbour>> before_;
  std::vector<int32_t> seen_;  // by vertex: the last search that met it
  int32_t searches_ = 0;
  int32_t limit_;
};

}  // namespace antegrad
