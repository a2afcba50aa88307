#pragma once

/// \file
/// Lets operators with in-place forms write their result into their first input if nothing reads
/// that input afterwards, and generated kernels into inputs of which they can
/// (graph/generated_node.h).
///
/// A node takes its in-place form (OpInfo::inplace_name) if
///  - input 0, or that of the kernel, was created in this graph or is donated, fills its storage
///    without overlaps, and has the same metadata as the output, so that the result has the same
///    bits;
///  - no other value of that storage is used later or is a graph output;
///  - no other input of the node shares the storage, unless it is the very same value;
///  - the input is one that gets a new value (Output::update) and the output is that value; or it
///    is none, and the output is no new value of another one; or the output stays in the graph.
///
/// The output then takes over the storage. Fewer operators touch fresh memory, which saves page
/// faults on the CPU and lowers peaks.
///
/// Runs last, on a forward or a backward graph: other passes expect functional graphs.

#include <vector>

#include "graph/graph.h"

namespace antegrad {

/// `donated`: graph inputs that own their storage and are not read after this graph runs. Other
/// inputs are never written: under retain_graph, saved values may be read again.
Graph reinplace(Graph graph, const std::vector<ValueId>& donated);
Graph reinplace(Graph graph);

/// What a forward may write over: its primals whose new values may lie where the old ones were
/// (Output::update).
std::vector<ValueId> updated_primals(const Graph& forward);

}  // namespace antegrad
