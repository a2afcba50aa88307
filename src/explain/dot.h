#pragma once

/// \file
/// Draws graphs in the DOT language, which graphviz turns into pictures.

#include <string>

#include "graph/graph.h"
#include "partition/partition.h"

namespace antegrad {

/// A joint graph, with forward and backward nodes in separate frames. What the backward reads from
/// the forward is bold.
std::string to_dot(const Graph& graph);

/// The two graphs of a partition. Saved values are bold boxes between the frames. Recomputed nodes
/// in the backward have an orange border.
std::string to_dot(const Partition& partition);

}  // namespace antegrad
