#pragma once

/// \file
/// Splits a joint graph into forward and backward at a given set of saved values. Shared by all
/// partitioners.
///
/// The backward runs the backward nodes that gradients need, in recorded order. Values that these
/// read from the forward and that are not saved are recomputed just before their first use: views
/// of saved values, and whatever else the partitioner chose to recompute. A random node runs again
/// only if its token is saved, which is the state that its generator had. Nodes with effects never
/// run again.
///
/// The joint graph must be verified and without dead code. It is taken by value, so that the
/// backward graph reuses its storage.

#include <vector>

#include "graph/graph.h"
#include "partition/partition.h"

namespace antegrad {

/// `saved[id]` says whether value `id` is to be saved. Tokens are saved for random nodes that may
/// run again. Values that the backward does not read are dropped from the result. Saved tensors
/// must own their storage. Throws GraphError if the backward needs a value that is neither saved
/// nor can be recomputed, or if a result depends on a tangent.
Partition split_at(Graph joint, const IdMap<ValueId, bool>& saved, const Schedule& schedule = {});

}  // namespace antegrad
