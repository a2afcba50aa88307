#pragma once

/// \file
/// Runs one pass: times it, checks what it returns, and dumps it on request.
///
/// The list of passes, with the reason for the place of each, is in pass_list.cpp; here is only
/// what happens around each.

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <antegrad/error.h>

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
  bool verify = false;             ///< check what each pass returns
  std::filesystem::path dump_dir;  ///< where dumps go; empty: no dumps. Made when missing.
  /// Gets a record for each pass; its length numbers the dumps, which therefore need it. One log a
  /// compilation, used by one thread at a time.
  std::shared_ptr<std::vector<PassRecord>> log;
  std::vector<std::string> disabled = {};  ///< names of passes that are left out
  std::string custom_pass = {};            ///< the user's pass (passes/custom_pass.h); empty: none

  bool is_disabled(std::string_view pass) const;
};

/// A graph of what a pass returns; "" for the name of the only one.
using NamedGraph = std::pair<std::string_view, const Graph*>;

/// What the runner asks of the values that passes return. Specialised where a type is more than a
/// graph.
template <class T>
struct PassResult;

template <>
struct PassResult<Graph> {
  static std::vector<NamedGraph> graphs(const Graph& graph) { return {{"", &graph}}; }
  static void check(const Graph& graph);
};

namespace detail {

void finish_pass(PassRecord record, const std::vector<NamedGraph>& graphs,
                 const PassContext& context);
[[noreturn]] void blame_pass(std::string_view name, const std::string& what);

}  // namespace detail

/// Returns make(). `nodes_before`: of what it works on. What breaks an invariant is reported with
/// the name of the pass. Writes dump_dir/NN-name.agraph, NN being the number of passes so far
/// (NN-name-part where a pass returns several graphs); throws OptionError when that file cannot be
/// written.
template <class Make>
auto run_pass(std::string_view name, size_t nodes_before, Make make, const PassContext& context) {
  const auto start = std::chrono::steady_clock::now();
  auto result = make();
  using Result = PassResult<decltype(result)>;
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  detail::finish_pass({std::string(name), taken.count(), nodes_before, 0}, Result::graphs(result),
                      context);
  if (!context.verify) return result;
  try {
    Result::check(result);
  } catch (const InternalError& error) {
    detail::blame_pass(name, error.what());
  }
  return result;
}

/// The same of a function from graph to graph, which is left out where the context disables it.
template <class Pass>
Graph run_pass(std::string_view name, Pass pass, Graph graph, const PassContext& context) {
  if (context.is_disabled(name)) return graph;
  const size_t nodes_before = graph.nodes.size();
  return run_pass(
      name, nodes_before, [&] { return Graph(pass(std::move(graph))); }, context);
}

}  // namespace antegrad
