#pragma once

/// \file
/// What a graph file holds: the graph, and how it was partitioned, where that was recorded.

#include <string>

#include "graph/graph.h"

namespace antegrad {

struct GraphFile {
  Graph graph;
  /// One JSON object, as text; empty when there is none. explain/record.h knows what it says.
  std::string record;
};

}  // namespace antegrad
