#pragma once

/// \file
/// Dead code elimination: drops nodes that no output needs.
///
/// Random draws need no rule: they hand on tokens, and the last token is an output, so a dropout
/// whose mask is unused still advances its generator. Nodes with side effects stay, whoever reads
/// them: other ranks wait for collectives, and writes in place change what others read.
///
/// Runs on any valid graph. Inputs stay, used or not: they are the calling convention.

#include "graph/graph.h"

namespace antegrad {

Graph dce(Graph graph);

}  // namespace antegrad
