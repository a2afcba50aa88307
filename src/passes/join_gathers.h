#pragma once

/// \file
/// Joins gathers of little data, each of which would take longer to begin than to send.

#include "graph/graph.h"

namespace antegrad {

/// Gathers of inputs of the graph that follow each other become one, as long as their results have
/// at most `bytes` together: the shards are packed, and each result is copied out where it was
/// waited for. The same bits. Looks at the graph alone, so that all ranks decide alike. Runs on
/// forward and backward graphs, before collectives overlap. 0 joins none.
Graph join_gathers(Graph graph, int64_t bytes);

}  // namespace antegrad
