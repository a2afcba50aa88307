#pragma once

/// \file
/// How many bytes a tensor, or the saved state of a generator, takes from the allocator: the one
/// place that knows about rounding.

#include <cstdint>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace antegrad {

struct ByteRules {
  /// Values of the graph's symbols, by SymbolId. Sizes of a static graph need none.
  std::vector<int64_t> symbols;
  /// Bytes are rounded up to a multiple of this. 0: as the device's allocator does, which is 64 on
  /// the CPU (c10 aligns blocks to 64 bytes) and 512 on CUDA (the caching allocator's smallest
  /// block).
  int64_t granule = 0;
  /// Bytes that a node's kernel takes while it runs, beyond what it returns, by Node::id. Missing
  /// entries: none.
  std::vector<int64_t> scratch = {};
};

/// Bytes of scratch memory of the node of that id.
int64_t scratch_bytes(int32_t node_id, const ByteRules& rules);

/// Bytes, rounded, of the storage of a tensor that owns it. 0 when it is empty or on the meta
/// device.
int64_t storage_bytes(const TensorMeta& meta, const ByteRules& rules);

/// Bytes, rounded, of the state of a generator, by its name in Graph::generators.
int64_t state_bytes(std::string_view generator, const ByteRules& rules);

}  // namespace antegrad
