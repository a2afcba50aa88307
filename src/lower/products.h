#pragma once

/// \file
/// Products of matrices, and attention, that may be computed faster than by what libtorch calls.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "lower/biased_product.h"

namespace antegrad::lower {

/// Another way to compute what some nodes compute.
struct OtherCall {
  std::vector<int32_t> nodes = {};   ///< positions, ascending; the last one makes the results
  std::vector<ValueId> inputs = {};  ///< what they read, as inputs of the following two
  Graph library = {};                ///< the nodes alone
  Graph graph = {};                  ///< the other way, with the same results
  std::string_view by = {};          ///< the library that computes it
  std::string what = {};             ///< the nodes in words, for reports
  bool copies = false;               ///< an operand, which takes memory
  /// From any inputs to inputs that a program would have, where some are results of others. Nothing
  /// if each may be anything.
  std::optional<Graph> likely_inputs = {};
};

/// Other ways for the node at `position`, perhaps with nodes before it. The first is to be
/// preferred. On GPUs:
///  - a product of two matrices to which a bias is added for each column, in one call.
/// On the CPU, for float32:
///  - a product of two matrices, with or without a bias for each column, by oneDNN, unless it is
///    small; a first matrix whose columns lie one behind the other is copied before;
///  - scaled dot product attention without mask and dropout, and its gradients, by antegrad's own
///    kernels (src/ops/attention.cpp), with up to 1024 keys, if the depth of heads is a multiple
///    of 16.
std::vector<OtherCall> other_calls(const Graph& graph, const GraphUses& uses, int32_t position);

}  // namespace antegrad::lower
