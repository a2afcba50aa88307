#pragma once

/// \file
/// Products of matrices that another library may compute faster than the one that libtorch calls.

#include <cstdint>
#include <optional>

#include "graph/graph.h"

namespace antegrad::lower {

/// The node alone: a graph from its inputs to its results.
Graph product_alone(const Graph& graph, const Node& node);

/// The same product by oneDNN, a graph with the same inputs and results; a first matrix whose
/// columns lie one behind the other is copied before. Nothing where the node is no product of two
/// matrices of float32 on the CPU (`mm`, or `addmm` with a bias for each column), or a small one.
std::optional<Graph> onednn_product(const Graph& graph, const Node& node);

}  // namespace antegrad::lower
