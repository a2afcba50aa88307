#pragma once

/// \file
/// Generates joint graphs of any size for benches of graph passes. The graphs have operators,
/// phases and metadata of real ones, but only tensor arguments: they can be partitioned, not run.

#include <cstdint>

#include "graph/graph.h"

namespace antegrad::bench {

/// Transformer-like blocks of 28 nodes each with a residual connection: norms, products, views,
/// dropout, and activations composed of pointwise operators.
Graph generated_transformer(int32_t nodes);

/// One value that every second node of the forward reads, with products in between.
Graph generated_fan_out(int32_t nodes);

/// One chain of pointwise operators; the backward reads the result of each.
Graph generated_chain(int32_t nodes);

}  // namespace antegrad::bench
