#pragma once

/// \file
/// Products of matrices, and attention, that may be computed faster than by what libtorch calls.

#include <optional>
#include <string>
#include <string_view>

#include "graph/graph.h"

namespace antegrad::lower {

/// The node alone: a graph from its inputs to its results.
Graph call_alone(const Graph& graph, const Node& node);

/// Another way to compute what a node computes.
struct OtherCall {
  Graph graph;               ///< with the inputs and results of call_alone()
  std::string_view library;  ///< that computes it
  std::string what;          ///< the node in words, for reports
  bool copies = false;       ///< an operand, which takes memory
  /// From any inputs to inputs that a program would have, where some are results of others. Nothing
  /// if each may be anything.
  std::optional<Graph> likely_inputs = {};
};

/// For float32 on the CPU:
///  - a product of two matrices (`mm`, or `addmm` with a bias for each column) by oneDNN, unless it
///    is small; a first matrix whose columns lie one behind the other is copied before;
///  - scaled dot product attention without mask and dropout, and its gradients, by antegrad's own
///    kernels (src/ops/attention.cpp), with up to 1024 keys, if the depth of heads is a multiple
///    of 16.
/// Nothing for other nodes.
std::optional<OtherCall> other_call(const Graph& graph, const Node& node);

}  // namespace antegrad::lower
