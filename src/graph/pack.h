#pragma once

/// \file
/// A graph in few bytes: about 40 a node, where a Graph takes about 800.
///
/// A compiled program keeps its graphs for as long as it lives, and looks at them rarely: for an
/// audit, for a backward of another form, for a dump. Meanwhile they are held in this form. It is
/// of this process: operators are handles. graph/text.h has the form for files.

#include <cstddef>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/hash.h"

namespace antegrad {

/// Immutable; thread-safe.
class PackedGraph {
 public:
  PackedGraph() = default;
  explicit PackedGraph(const Graph& graph);

  /// The graph, equal in every member, dead values included. Not for an object without a graph.
  Graph unpack() const;

  /// Of the graph, ids and name included (structural_hash() leaves those out). The same in each
  /// process and on each machine.
  Hash128 hash() const;

  /// What is held on the heap.
  size_t bytes() const { return bytes_.capacity() + ops_.capacity() * sizeof(Op); }

  friend bool operator==(const PackedGraph&, const PackedGraph&) = default;

 private:
  std::string bytes_;
  std::vector<Op> ops_;  // that nodes refer to
};

}  // namespace antegrad
