#pragma once

/// \file
/// Joint graphs of any size for measuring what works on graphs alone. They have the operators,
/// phases and metadata of real ones and no arguments but tensors: they partition, and do not run.

#include <cstdint>

#include "graph/graph.h"

namespace antegrad::bench {

/// Transformer-like blocks of 28 nodes, with a residual connection through all of them: norms,
/// products, views, dropout, and activations written as single pointwise operators.
Graph generated_transformer(int32_t nodes);

/// One value that every other node of the forward reads, with products in between.
Graph generated_fan_out(int32_t nodes);

/// One row of pointwise operators of which the backward reads every one.
Graph generated_chain(int32_t nodes);

}  // namespace antegrad::bench
