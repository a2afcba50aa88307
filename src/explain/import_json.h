#pragma once

/// \file
/// Reads joint graphs of PyTorch as JSON (docs/graph-format.md): operators, edges, sizes, dtypes
/// and storages, and what AOTAutograd's partitioners save. The Python package writes them for its
/// partitioner under AOTAutograd (python/antegrad/_joint_graph.py).
///
/// There are no strides, and no constant arguments but the dimensions of reductions: a call has its
/// tensor arguments only, and tensors are contiguous. That suffices to partition the graph and to
/// compute its memory, but not to run or simplify it.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace antegrad {

struct ImportedGraph {
  Graph graph;
  /// What AOTAutograd saves: by its memory budget ("0.5"), or "default" for its default partition.
  std::vector<std::pair<std::string, std::vector<ValueId>>> reference;
  std::vector<size_t> nodes_of_calls;       ///< by Node::id: the index of the node in the file
  IdMap<ValueId, int32_t> nodes_of_values;  ///< the index of the node with this result, -1 for none
};

/// `file`: the name of the text in error messages. Throws GraphError if it is not such a graph.
/// The graph is not verified.
ImportedGraph import_json(std::string_view text, const std::string& file);

}  // namespace antegrad
