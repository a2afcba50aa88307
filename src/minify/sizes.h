#pragma once

/// \file
/// The same graph for smaller tensors.

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/graph.h"

namespace antegrad::minify {

/// The sizes of inputs above 1, each once, from the largest.
std::vector<int64_t> input_sizes(const Graph& graph);

/// The graph with `to` in place of `from`, wherever it is the size of an input or an integer
/// argument. The metadata of other values are those that kernels return. Nothing if kernels refuse.
std::optional<Graph> resized(Graph graph, int64_t from, int64_t to);

}  // namespace antegrad::minify
