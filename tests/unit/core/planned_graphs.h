#pragma once

/// \file
/// What the tests of reports on budgets share: a chain of layers, and its planner.

#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "graphs.h"
#include "partition/budget/planner.h"
#include "passes/pass_list.h"

namespace antegrad::testing {

/// exp, sin, exp, sin, ... of 16 KiB each, all of which the backward reads.
inline Graph chain_graph(int layers) {
  const std::string type = "f32[4096]";
  std::string inputs = "inputs\n  %0: " + type + " primal argument 0 grad\n";
  inputs += fmt::format("  %{}: {} tangent 0\n", 2 * layers + 1, type);
  std::string forward = "nodes\n";
  std::string backward = "backward\n";
  for (int i = 0; i < layers; ++i) {
    forward += fmt::format("  %{}: {} = aten::{}.default(%{})\n", i + 1, type,
                           i % 2 == 0 ? "exp" : "sin", i);
    backward += fmt::format("  %{}: {} = aten::mul.Tensor(%{}, %{})\n", 2 * layers + 2 + i, type,
                            2 * layers + 1 + i, layers - i);
  }
  return graph_of(inputs + forward + backward +
                  fmt::format("outputs\n  %{} result\n  %{} gradient 0\n", layers, 3 * layers + 1));
}

/// A graph that is simplified, and its planner; stays where it is.
struct PlannedGraph {
  explicit PlannedGraph(Graph joint) : graph(prepared(std::move(joint))) {}
  explicit PlannedGraph(const std::string& file) : PlannedGraph(graph_from_file(file)) {}
  PlannedGraph(const PlannedGraph&) = delete;
  PlannedGraph& operator=(const PlannedGraph&) = delete;

  static Graph prepared(Graph joint) {
    number_nodes(joint);
    return run_joint_passes(std::move(joint), {});
  }

  Graph graph;
  budget::Planner planner{graph, budget::roofline(graph)};
};

}  // namespace antegrad::testing
