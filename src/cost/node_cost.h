#pragma once

/// \file
/// The cost of one run of a node by itself, without what fusion saves (fusion/groups.h).

#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace antegrad {

struct NodeCost {
  int64_t flops = 0;  ///< see cost/op_flops.h
  int64_t bytes = 0;  ///< read and written
  int64_t host_bytes =
      0;  ///< moved between device and host; on the host itself, between host and file
  friend bool operator==(const NodeCost&, const NodeCost&) = default;
};

/// `symbols`: values of the graph's symbols, by SymbolId.
///
/// Bytes are those of the elements of its tensors. Each input counts once, however often it is
/// read; an expanded tensor counts the elements in memory. Views and fresh memory (`empty`) move
/// nothing. Operators that read only sizes read nothing. Gathers (`embedding`, `index`) read as
/// much of input 0 as they return.
NodeCost node_cost(const Graph& graph, const Node& node, const std::vector<int64_t>& symbols = {});

/// Bytes moved by reading or writing all of a tensor. 0 for other values.
int64_t moved_bytes(const Value& value, const std::vector<int64_t>& symbols = {});

}  // namespace antegrad
