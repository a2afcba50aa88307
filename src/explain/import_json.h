#pragma once

/// \file
/// Reads joint graphs of PyTorch that were exported as JSON (docs/graph-format.md): operators, edges, sizes, dtypes and
/// storages, and what the reference's partitioners save.
///
/// There are no constant arguments and no strides: a call gets its tensors alone, and tensors are contiguous. That is
/// enough for a partitioner and its memory, and not to run or to simplify the graph.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace antegrad {

struct ImportedGraph {
  Graph graph;
  /// What the reference saves: by its memory budget ("0.5"), or "default" for its default partition.
  std::vector<std::pair<std::string, std::vector<ValueId>>> reference;
};

/// `file`: what error messages call the text. Throws GraphError when it holds no such graph. The graph is not verified.
ImportedGraph import_json(std::string_view text, const std::string& file);

/// All that a file holds, unpacked when it is gzipped. Throws InputError when it cannot be read.
std::string read_maybe_gzipped(const std::string& file);

}  // namespace antegrad
