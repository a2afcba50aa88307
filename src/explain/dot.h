#pragma once

/// \file
/// Draws graphs in the DOT language, which graphviz turns into pictures.

#include <string>

#include "graph/graph.h"
#include "partition/partition.h"

namespace antegrad {

/// A joint graph, forward and backward nodes in a frame each. What the backward reads from the
/// forward is drawn bold.
std::string to_dot(const Graph& graph);

/// The two graphs of a partition. Saved values are boxes between the frames, drawn bold; nodes of the backward that ran
/// in the forward have an orange border.
std::string to_dot(const Partition& partition);

}  // namespace antegrad
