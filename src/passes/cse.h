#pragma once

/// \file
/// Common subexpression elimination: a node that computes what an earlier node computed is dropped,
/// and the earlier one's values stand for its own.
///
/// Equal means: same operator, arguments and inputs, known to give the same bits each time, without
/// tokens, writes or communication. A backward node may go in favour of a forward node, never the
/// other way round; factories are not shared between the passes, since holding what can be filled
/// again costs more than filling it. Two outputs never become one value or share a storage through
/// it.
///
/// Runs before partitioning, on a functional graph (no in-place writes).

#include "graph/graph.h"

namespace antegrad {

Graph cse(Graph graph);

}  // namespace antegrad
