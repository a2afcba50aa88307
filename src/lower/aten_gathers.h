#pragma once

/// \file
/// Calls of ATen operators that copy elements found at indices: index, gather, embedding.

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "graph/graph.h"

namespace antegrad::lower {

/// One tensor of indices into one dimension of the source.
struct GatherIndex {
  ValueId value;
  size_t dimension = 0;
  bool wraps = false;  ///< a negative index counts from the end; otherwise eager raises an error
};

/// The element of the result at i is that of the source at
///   i[kept[d]] in each dimension d with a `kept`, and the indices' elements in the others.
struct GatherCall {
  ValueId source;
  std::vector<GatherIndex> indices;
  std::vector<int32_t> kept;  ///< by dimension of the source: that of the result, or -1
  /// Dimensions of the result to which the tensors of indices broadcast: `count` ones from `first`.
  size_t first = 0;
  size_t count = 0;
};

bool is_gather(std::string_view name);

/// What the node copies, or the reason, in words, why that is not known.
std::variant<GatherCall, std::string> gather_call(const Graph& graph, const Node& node);

}  // namespace antegrad::lower
