#pragma once

/// \file
/// Inserts a small graph into a larger one, and moves memory and objects to other numbers.

#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace antegrad {

/// Inserts the nodes of `part` before node `position` of `host`. Returns the host's value for each
/// output of the part, in order. `inputs`: the host's values for the part's inputs, with the same
/// metadata. Values computed by the part get new ids, at the end of Graph::values; values that it
/// passes through are the host's. Nodes are numbered from `next_id` on, which is advanced. Opaque
/// object i of the part is number `first_object` + i of the host. The part must have no tokens or
/// generators, name no objects of its own (Graph::opaque_names), and write nothing.
std::vector<ValueId> splice(Graph& host, size_t position, const Graph& part,
                            const std::vector<ValueId>& inputs, Phase phase, int32_t& next_id,
                            int32_t first_object = 0);

/// What lay in the memory of `from` lies in that of `to`, which is no view any more if it was one.
void move_storage(Graph& graph, StorageId from, StorageId to);

/// Adds `by` to the number of each opaque object.
void renumber_objects(std::vector<Node>& nodes, int32_t by);

}  // namespace antegrad
