#pragma once

/// \file
/// From where to where each storage of a graph is alive.
///
/// Counts storages, not values: views and in-place results prolong the life of the storage that
/// they share. The graph must be verified. Linear in its size.

#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "memory/byte_rules.h"

namespace antegrad {

struct StorageLife {
  StorageId storage = -1;
  /// Position of the node that makes it; -1 for a graph input.
  int32_t first = -1;
  /// Position of the last node that reads or makes a value of it; the number of nodes when a graph
  /// output holds it; -1 for an input that nothing reads.
  int32_t last = -1;
  int64_t bytes = 0;  ///< rounded, see ByteRules
};

/// In order of first definition: graph inputs first. Tensors only.
std::vector<StorageLife> liveness(const Graph& graph, const ByteRules& rules = {});

}  // namespace antegrad
