#pragma once

/// \file
/// Replaces operators that read only the sizes of a tensor by factories that take numbers:
/// zeros_like(x) becomes zeros([8, 64]).
///
/// Otherwise, a backward that reads the size of a forward value would keep the value alive. Runs
/// before partitioning, on any valid graph; dce() then removes nodes of which only sizes were read.
/// Operators whose result differs from the factory's (other strides, pinned memory) stay.

#include "graph/graph.h"

namespace antegrad {

Graph size_only_inputs(Graph graph);

}  // namespace antegrad
