#pragma once

/// \file
/// Where the nodes of a segment's graph come from: which node of the autograd graph, or which
/// compiled region.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "torch_compat/backward_pass.h"

namespace antegrad::backward {

/// By place in the pass: "7 MulBackward0"; of regions "aot0_NAME", numbered by the callable, and
/// from its second one on "aot0_1_NAME", as PyTorch's compiled autograd names what its graph
/// contains of a compiled region.
std::vector<std::string> names_of_nodes(const torch_compat::BackwardPass& pass);

class Origins {
 public:
  void clear() { from_.clear(); }
  /// Nodes with this id and those after it come from there.
  void begin(int32_t node, const std::string& name);
  /// Of a node; "" for one that came before all.
  std::string of(int32_t node) const;
  /// A line for each range of ids: "4 to 9: aot0_NAME".
  std::string text(int32_t nodes) const;

 private:
  std::vector<std::pair<int32_t, std::string>> from_;  // ascending
};

}  // namespace antegrad::backward
