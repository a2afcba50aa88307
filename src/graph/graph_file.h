#pragma once

/// \file
/// The contents of a graph file: a graph, and optionally the record of its partition.

#include <string>

#include "graph/graph.h"

namespace antegrad {

struct GraphFile {
  Graph graph;
  /// One JSON object, as text; empty if there is none. explain/record.h defines its fields.
  std::string record;
};

}  // namespace antegrad
