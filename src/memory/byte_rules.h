#pragma once

/// \file
/// The number of bytes that a tensor or the saved state of a generator takes from the allocator.
/// Only this file knows about rounding.

#include <cstdint>
#include <string_view>
#include <vector>

#include "graph/analysis.h"
#include "graph/graph.h"

namespace antegrad {

struct ByteRules {
  /// Values of the graph's symbols, by SymbolId. Not needed if all sizes are static.
  std::vector<int64_t> symbols;
  /// Sizes are rounded up to a multiple of this number of bytes. 0 stands for the granule of the
  /// device's allocator: 64 on the CPU (c10 aligns blocks to 64 bytes), 512 on CUDA (the caching
  /// allocator's smallest block).
  int64_t granule = 0;
  /// Bytes that a node's kernel allocates while it runs, besides its results, by Node::id. Missing
  /// entries count as 0.
  std::vector<int64_t> scratch = {};
  /// Nodes of a joint graph that generated code computes together with everything that reads their
  /// results (fusion/fused_nodes.h), by Node::id. A result takes memory only if it is saved.
  /// Missing entries are false.
  std::vector<bool> fused = {};
};

/// Whether a node, given by its id, is one of ByteRules::fused.
inline bool is_fused(int32_t node_id, const ByteRules& rules) {
  return is_flagged(node_id, rules.fused);
}

/// Bytes of scratch memory of a node, given by its id.
int64_t scratch_bytes(int32_t node_id, const ByteRules& rules);

/// Rounded bytes of the storage that a tensor owns. 0 if it is empty or on the meta device.
int64_t storage_bytes(const TensorMeta& meta, const ByteRules& rules);

/// Rounded bytes of the state of a generator, given by its name in Graph::generators.
int64_t state_bytes(std::string_view generator, const ByteRules& rules);

}  // namespace antegrad
