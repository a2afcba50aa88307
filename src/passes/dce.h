#pragma once

/// \file
/// Dead code elimination: drops nodes that no output needs.
///
/// What acts on the world survives without a rule of its own: random draws and effects hand on
/// tokens, and the last token is an output, so a dropout whose mask is unused still advances its
/// generator. Collectives and in-place writes stay, whoever reads them: other ranks wait for the
/// first, and the second change what others read.
///
/// Runs on any valid graph. Inputs stay, used or not: they are the calling convention.

#include "graph/graph.h"

namespace antegrad {

Graph dce(Graph graph);

}  // namespace antegrad
