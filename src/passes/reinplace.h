#pragma once

/// \file
/// Lets pointwise operators write into their first input when nothing reads it afterwards.
///
/// A node takes its in-place form (OpInfo::inplace_name) when
///  - input 0 was made in this graph or is donated, fills its storage without overlaps, and its
///    metadata are those of the output, so that the same bits come out;
///  - no value of that storage is used later or leaves the graph, other than the new one;
///  - no other input of the node shares the storage, unless it is the very same value.
/// The output then takes over the storage. One operator fewer touches fresh memory, which on the
/// CPU costs page faults, and peaks fall.
///
/// Runs last, on a forward or a backward graph: later passes expect functional graphs.

#include <vector>

#include "graph/graph.h"

namespace antegrad {

/// `donated`: graph inputs that own their storage and that nobody reads after this graph. Other
/// inputs are never written: saved values may be asked for again under retain_graph.
Graph reinplace(Graph graph, const std::vector<ValueId>& donated);
Graph reinplace(Graph graph);

}  // namespace antegrad
