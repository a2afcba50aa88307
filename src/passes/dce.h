#pragma once

/// \file
/// Dead code elimination: removes nodes that no output needs.
///
/// Random draws need no rule: they return tokens, and the last token is an output, so a dropout
/// with an unused mask still advances its generator. Nodes with side effects are always kept: other
/// ranks wait for collectives, and in-place writes change values that other nodes read.
///
/// Runs on any valid graph. Inputs stay, used or not: they are the calling convention.

#include "graph/graph.h"

namespace antegrad {

Graph dce(Graph graph);

}  // namespace antegrad
