#pragma once

/// \file
/// Runs one pass: times it, verifies what it returns, and dumps it on request.
///
/// The list of passes and the reasons for its order are in joint_passes.cpp and compile/pipeline.cpp; here
/// is only what happens around each.

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace antegrad {

/// What one pass did, for reports.
struct PassRecord {
  std::string name;
  double seconds = 0;
  size_t nodes_before = 0;
  size_t nodes_after = 0;
};

struct PassContext {
  bool verify = false;             ///< verify() after each pass
  std::filesystem::path dump_dir;  ///< where dumps go; empty: no dumps. Made when missing.
  /// Gets a record for each pass; its length numbers the dumps, which therefore need it. One log a
  /// compilation, used by one thread at a time.
  std::shared_ptr<std::vector<PassRecord>> log;
};

/// Returns fn(graph). A broken graph is reported with the name of the pass that broke it.
Graph run_pass(std::string_view name, const std::function<Graph(Graph)>& fn, Graph graph,
               const PassContext& context);

/// Writes dump_dir/NN-name.agraph, NN being the number of passes so far; does nothing without a
/// dump_dir. Throws OptionError when the file cannot be written.
void dump_graph(std::string_view name, const Graph& graph, const PassContext& context);

}  // namespace antegrad
