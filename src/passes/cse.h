#pragma once

/// \file
/// Common subexpression elimination: removes a node that repeats an earlier one, and replaces its
/// outputs by those of the earlier node.
///
/// Two nodes are equal if they have the same operator, arguments and inputs, give the same bits
/// each time, and have no tokens, writes or communication. A backward node may be replaced by a
/// forward node, never the reverse. Factories are not shared between forward and backward, since
/// saving such a value costs more than filling it again. Merging never makes two graph outputs one
/// value or lets them share a storage.
///
/// Runs before partitioning, on a functional graph (no in-place writes).

#include "graph/graph.h"

namespace antegrad {

Graph cse(Graph graph);

}  // namespace antegrad
