#pragma once

/// \file
/// Shared by the tests of budget reports: a chain of layers, and its planner.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cost/machine.h"
#include "graphs.h"
#include "partition/budget/planner.h"
#include "passes/pass_list.h"
#include "support/joint_graph.h"

namespace antegrad::testing {

/// exp, sin, exp, sin, ... of so many elements each (16 KiB by default), all of which the backward
/// reads.
inline Graph chain_graph(int layers, int64_t size = 4096) {
  JointGraph graph("chain");
  std::vector<ValueId> row = {graph.primal(dense({size}))};
  for (int i = 0; i < layers; ++i) {
    const char* op = i % 2 == 0 ? "aten::exp.default" : "aten::sin.default";
    row.push_back(graph.call(op, {row.back()}, dense({size})));
  }
  graph.result(row.back());
  ValueId gradient = graph.tangent(0, dense({size}));
  graph.begin_backward();
  for (; row.size() > 1; row.pop_back()) {
    gradient = graph.call("aten::mul.Tensor", {gradient, row.back()}, dense({size}));
  }
  graph.gradient(0, gradient);
  return graph.finish();
}

/// A simplified graph and its planner. Not movable.
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
  budget::Planner planner{graph, node_seconds(graph)};
};

}  // namespace antegrad::testing
