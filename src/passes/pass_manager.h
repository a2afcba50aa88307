#pragma once

/// \file
/// Runs one pass: times it, verifies its result, and dumps it on request.
///
/// The list of passes, with the reason for the place of each, is in pass_list.cpp.

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <antegrad/error.h>

#include "graph/graph.h"

namespace antegrad {

/// The record of one pass, for reports.
struct PassRecord {
  std::string name;
  double seconds = 0;
  size_t nodes_before = 0;
  size_t nodes_after = 0;
  std::chrono::steady_clock::time_point start = {};
};

struct PassContext {
  bool verify = false;  ///< verify the result of each pass
  std::filesystem::path dump_dir =
      {};  ///< directory for dumps, created if missing; empty: no dumps
  /// Receives a record per pass. Dumps are numbered by its length and therefore require it. One log
  /// per compilation, used by one thread at a time.
  std::shared_ptr<std::vector<PassRecord>> log = {};
  std::vector<std::string> disabled = {};  ///< names of the passes to skip
  /// Whether the program's own collectives may be treated like a computation (pair_waits()).
  bool optimize_collectives = false;
  std::string custom_pass = {};  ///< the user-defined pass (passes/custom_pass.h); empty: none
  /// Called with each graph that a pass returns, before it is dumped and verified; may change it.
  /// For tools that look at every graph, and for tests that break a pass.
  std::function<void(std::string_view pass, std::string_view part, Graph& graph)> after = {};

  bool is_disabled(std::string_view pass) const;
};

/// A graph in the result of a pass. The name is "" if there is only one graph.
using NamedGraph = std::pair<std::string_view, Graph*>;

/// The operations that the runner needs on results of passes. Specialised for results that are more
/// than a graph.
template <class T>
struct PassResult;

template <>
struct PassResult<Graph> {
  static std::vector<NamedGraph> graphs(Graph& graph) { return {{"", &graph}}; }
  static void check(const Graph& graph);
};

namespace detail {

void finish_pass(PassRecord record, const std::vector<NamedGraph>& graphs,
                 const PassContext& context);
[[noreturn]] void blame_pass(std::string_view name, const std::string& what);

}  // namespace detail

/// Runs a pass and returns make(). `nodes_before` is the number of nodes of its input. An invalid
/// result is reported with the name of the pass. Writes the dump dump_dir/NN-name.agraph, where NN
/// counts passes (NN-name-part if the pass returns several graphs). Throws OptionError if that file
/// cannot be written.
template <class Make>
auto run_pass(std::string_view name, size_t nodes_before, Make make, const PassContext& context) {
  const auto start = std::chrono::steady_clock::now();
  auto result = make();
  using Result = PassResult<decltype(result)>;
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  if (context.after) {
    for (const auto& [part, graph] : Result::graphs(result)) context.after(name, part, *graph);
  }
  detail::finish_pass({std::string(name), taken.count(), nodes_before, 0, start},
                      Result::graphs(result), context);
  if (!context.verify) return result;
  try {
    Result::check(result);
  } catch (const InternalError& error) {
    detail::blame_pass(name, error.what());
  }
  return result;
}

/// The same for a pass from graph to graph, which is skipped if the context disables it.
template <class Pass>
Graph run_pass(std::string_view name, Pass pass, Graph graph, const PassContext& context) {
  if (context.is_disabled(name)) return graph;
  const size_t nodes_before = graph.nodes.size();
  return run_pass(
      name, nodes_before, [&] { return Graph(pass(std::move(graph))); }, context);
}

}  // namespace antegrad
