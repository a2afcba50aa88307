#pragma once

/// \file
/// How many bytes a tensor takes from the allocator: the one place that knows about rounding.

#include <cstdint>
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
};

/// Bytes, rounded, of the storage of a tensor that owns it. 0 when it is empty or on the meta
/// device.
int64_t storage_bytes(const TensorMeta& meta, const ByteRules& rules);

}  // namespace antegrad
