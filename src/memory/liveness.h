#pragma once

/// \file
/// Live ranges of the storages in a graph.
///
/// Counts storages, not values: views and in-place results prolong the life of the storage that
/// they share. The graph must be verified. Linear in the size of the graph.

#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "memory/byte_rules.h"

namespace antegrad {

struct StorageLife {
  StorageId storage;
  /// Position of the producer; -1 for a graph input.
  int32_t first = -1;
  /// Position of the last node that reads or produces a value of the storage. The number of nodes
  /// if a graph output holds it; -1 for an unused input.
  int32_t last = -1;
  int64_t bytes = 0;  ///< rounded, see ByteRules
};

/// Storages of tensors in order of first definition, graph inputs first.
std::vector<StorageLife> liveness(const Graph& graph, const ByteRules& rules = {});

}  // namespace antegrad
