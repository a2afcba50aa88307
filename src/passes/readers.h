#pragma once

/// \file
/// The nodes that read each value, for passes that look for patterns.

#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace antegrad {

/// Positions of nodes, ascending, once for each input. An output of the graph reads behind all
/// nodes.
class Readers {
 public:
  explicit Readers(const Graph& graph)
      : end_(static_cast<int32_t>(graph.nodes.size())), of_(graph.values.size()) {
    for (int32_t i = 0; i < end_; ++i) {
      for (const ValueId id : graph.nodes[i].inputs) of_[id].push_back(i);
    }
    for (const Output& output : graph.outputs) {
      if (output.value != kNoValue) of_[output.value].push_back(end_);
    }
  }

  const std::vector<int32_t>& of(ValueId id) const { return of_[id]; }
  /// Whether a reader is a node and not an output.
  bool is_node(int32_t reader) const { return reader < end_; }
  /// The node that alone reads the value; -1 if there is none, or others do.
  int32_t only_reader(ValueId id) const {
    return of_[id].size() == 1 && is_node(of_[id][0]) ? of_[id][0] : -1;
  }

 private:
  const int32_t end_;
  IdMap<ValueId, std::vector<int32_t>> of_;
};

}  // namespace antegrad
