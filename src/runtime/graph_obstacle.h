#pragma once

/// \file
/// Which programs can be recorded as a CUDA graph: those that ask nothing on the host and do the
/// same in each call.

#include <string>

#include "graph/graph.h"

namespace antegrad::runtime {

/// Why a forward or backward cannot be recorded, in a few words; empty if it can, as far as the
/// graph tells. An operator that waits for the device is found out when it is recorded.
std::string graph_obstacle(const Graph& graph);

/// Whether an operator finds its elements by their place in an input's whole storage, so that a
/// copy of the input cannot stand for it.
bool reads_whole_storage(const Graph& graph);

}  // namespace antegrad::runtime
