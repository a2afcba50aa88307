#pragma once

/// \file
/// Edits that make a graph smaller and leave it well-formed, whatever it computes then.
///
/// Each edit removes what nothing needs afterwards: nodes, inputs, undefined outputs. Ids of values
/// and nodes stay. An edit may break a rule that the original kept (two results of one storage):
/// verify() decides.

#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace antegrad {

/// What becomes of values at the border of removed nodes.
struct Cut {
  /// Values that only removed nodes read become outputs: results, or gradients where they depend on
  /// a tangent. Otherwise the nodes that compute them go too.
  bool expose = false;
  /// Inputs that replace values which depend on a tangent are tangents. Otherwise they are primals.
  bool tangents = false;
};

/// Removes the nodes for whose positions `removed` is true. Inputs of the graph replace their
/// results; a token bypasses them.
Graph without_nodes(const Graph& graph, const std::vector<bool>& removed, Cut cut);

/// Removes the outputs for whose positions `removed` is true, and results that are views of them.
/// Tokens stay, and so does a base whose tangent is read.
Graph without_outputs(Graph graph, const std::vector<bool>& removed);

/// Replaces a value by an earlier one with the same metadata.
Graph with_replacement(Graph graph, ValueId value, ValueId by);

}  // namespace antegrad
