#pragma once

/// \file
/// Collectives in a forward or a backward graph: when they start and end, and that all ranks run
/// the same.
///
/// A collective is two nodes, one that starts it and a wait, from when on its result may be read
/// (OpTraits::waits). One without a wait stays where it is. Both passes look at the graph alone, so
/// they decide alike on all ranks.

#include <string>

#include "graph/graph.h"

namespace antegrad {

/// Whether the node starts a collective, or waits for one.
bool starts_collective(const Node& node);
bool ends_collective(const Node& node);

/// The group of a node that starts one: the last of its arguments that is text.
std::string group_of(const Node& node);

bool has_collectives(const Graph& graph);
/// The group of the first one; empty for none.
std::string group_of_collectives(const Graph& graph);

/// Starts collectives of what the graph is given, such as gathers of shards, `ahead` of them early:
/// right after the wait of the one that many before, and the first ones at the start of the graph.
/// Ends all others, such as reductions of gradients, late: before the next one's input is made, the
/// last one at the end of the graph. One that needs the result of another, as the gather of an
/// all-reduce does, runs while the input of the one after the next is made, and so on. What
/// computes with their results moves along. With 0 nothing moves. Runs on functional graphs.
Graph overlap_collectives(Graph graph, int64_t ahead);

/// Adds a first node for each group that compares the group's collectives with those of the other
/// ranks (antegrad::agree). Runs last: later passes must not reorder collectives.
Graph agree_on_collectives(Graph graph);

}  // namespace antegrad
