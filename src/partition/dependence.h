#pragma once

/// \file
/// Dependences in a joint graph: on tangents, on a generator.

#include <vector>

#include "graph/graph.h"

namespace antegrad {

/// By node: true if it belongs to the backward. That is, it depends on a tangent; or it was
/// captured in the backward, computes something, and no result needs it. All other nodes belong to
/// the forward, wherever they were captured, including views of forward values. So saved values
/// depend on the forward alone, which is the same for all backwards of a region. If `values` is
/// not null, it marks the values produced by backward nodes, and tangents.
std::vector<bool> bound_to_backward(const Graph& joint, IdMap<ValueId, bool>* values = nullptr);

/// By value: the generator whose draws a token orders, an index into Graph::generators; -1 for
/// other values.
IdMap<ValueId, int32_t> generators_of_tokens(const Graph& joint);

}  // namespace antegrad
