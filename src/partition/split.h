#pragma once

/// \file
/// Splits a joint graph into forward and backward at a given set of saved values: what all
/// partitioners share once they have decided.
///
/// The backward runs the backward-phase nodes that gradients need, in recorded order. What these
/// read from the forward and is not saved is computed again just before its first use: views of
/// saved values, and whatever else a partitioner chose to recompute. A random node runs again only
/// with its token saved, which is the state that its generator had; nodes with effects never do.
///
/// The joint graph must be verified and without dead code. Ownership: takes it by value, so that
/// the backward graph takes over its storage.

#include <vector>

#include "graph/graph.h"
#include "partition/partition.h"

namespace antegrad {

/// `saved[id]` says whether value `id` is to be saved; of tokens those that nodes which may be replayed
/// take. Values that the backward turns out not to
/// read are left out of the result. Saved tensors must own their storage. Throws GraphError when the
/// backward needs a value that is neither saved nor can be computed again, or when a result depends on a
/// tangent.
Partition split_at(Graph joint, const std::vector<bool>& saved, const Schedule& schedule = {});

/// True when the graph computes gradients.
bool has_backward(const Graph& joint);

}  // namespace antegrad
