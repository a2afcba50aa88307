#pragma once

/// \file
/// Who depends on what in a joint graph: on tangents, on a generator.

#include <vector>

#include "graph/graph.h"

namespace antegrad {

/// By node: it depends on a tangent; or it was captured in the backward, computes something, and no result needs it. All
/// other nodes, views of forward values among them, belong to the forward, wherever they were captured. What is saved is
/// so of the forward alone, which is the same for all backwards of a region. Of the graph's values those that bound nodes
/// make, and tangents, are marked in `values` where it is not null.
std::vector<bool> bound_to_backward(const Graph& joint, std::vector<bool>* values = nullptr);

/// By value: the generator whose draws a token orders, an index into Graph::generators; -1 for other values.
std::vector<int32_t> generators_of_tokens(const Graph& joint);

}  // namespace antegrad
