#pragma once

/// \file
/// Turns operators that read only the sizes of a tensor into factories that take numbers:
/// zeros_like(x) becomes zeros([8, 64]).
///
/// A backward that asks for the size of a forward value would otherwise keep the value alive. Runs
/// before partitioning, on any valid graph; then dce() finds what only sizes were read of.
/// Operators whose result is not what the factory makes (other strides, pinned memory) stay as they
/// are.

#include "graph/graph.h"

namespace antegrad {

Graph size_only_inputs(Graph graph);

}  // namespace antegrad
