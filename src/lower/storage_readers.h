#pragma once

/// \file
/// Who reads the memory of each value of a graph. Found once, so that a group can ask whether
/// somebody outside reads its values without looking at the whole graph.

#include <cstdint>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "graph/ids.h"

namespace antegrad::lower {

class StorageReaders {
 public:
  explicit StorageReaders(const Graph& graph);
  /// Whether an output, or a node other than these (positions, ascending), reads it.
  bool any_but(StorageId storage, std::span<const int32_t> nodes) const;

 private:
  IdMap<StorageId, std::vector<int32_t>> readers_;  // ascending; an output reads behind all nodes
};

}  // namespace antegrad::lower
