#pragma once

/// \file
/// Lets a whole step update each parameter once its gradient is known and nothing reads the old
/// value any more. Captured, updates follow the whole backward, so that all gradients would be in
/// memory at once.

#include "graph/graph.h"

namespace antegrad {

/// The backward with the nodes of updates (Output::update) as early as they can run and still write
/// over the old values. Nodes of an update are the pointwise ones on the way from an old value to
/// the new one that nothing else needs. The order of other nodes stays. Old values that it reads
/// name the input that they are (Input::index). Linear in the size of the graph.
Graph with_early_updates(Graph backward, const Graph& forward);

}  // namespace antegrad
