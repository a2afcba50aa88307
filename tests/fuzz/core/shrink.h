#pragma once

/// \file
/// Shared by the fuzz tests: the number of cases, data for a graph, and shrinking of failing
/// graphs.

#include <cstdlib>
#include <functional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graph/text.h"
#include "interpreter.h"
#include "random_graph.h"

namespace antegrad::testing {

/// True for the long run of the tests (make test-all).
inline bool long_run() { return std::getenv("ANTEGRAD_TEST_LONG") != nullptr; }

inline std::vector<Data> random_inputs(const Graph& graph, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> number(-2, 2);
  std::vector<Data> inputs;
  for (const Input& input : graph.inputs) {
    const Value& value = graph.value(input.value);
    Data data(value.kind == ValueKind::token ? 1
                                             : static_cast<size_t>(numel(value.meta).constant()));
    for (double& x : data) x = number(random);
    inputs.push_back(std::move(data));
  }
  return inputs;
}

/// Removes the node at `position` if nothing needs its values; a token bypasses it.
inline bool drop_node(Graph& graph, size_t position) {
  const Node node = graph.nodes[position];
  std::set<ValueId> made(node.outputs.begin(), node.outputs.end() - node.tokens);
  for (const Node& other : graph.nodes) {
    for (const ValueId input : other.inputs) {
      if (made.count(input)) return false;
    }
  }
  for (const Output& output : graph.outputs) {
    if (output.value != kNoValue && made.count(output.value)) return false;
  }
  graph.nodes.erase(graph.nodes.begin() + static_cast<std::ptrdiff_t>(position));
  for (int i = 1; i <= node.tokens; ++i) {
    const ValueId before = node.inputs[node.inputs.size() - static_cast<size_t>(i)];
    const ValueId after = node.outputs[node.outputs.size() - static_cast<size_t>(i)];
    for (Node& other : graph.nodes) {
      std::replace(other.inputs.begin(), other.inputs.end(), after, before);
    }
    for (Output& output : graph.outputs) {
      if (output.value == after) output.value = before;
    }
  }
  return true;
}

/// Makes outputs undefined and removes nodes while `fails` stays true.
inline Graph shrink(Graph graph, const std::function<bool(const Graph&)>& fails) {
  bool smaller = true;
  while (smaller) {
    smaller = false;
    for (size_t i = 0; i < graph.outputs.size(); ++i) {
      const OutputKind kind = graph.outputs[i].kind;
      if (graph.outputs[i].value == kNoValue ||
          (kind != OutputKind::result && kind != OutputKind::gradient)) {
        continue;
      }
      Graph candidate = graph;
      candidate.outputs[i].value = kNoValue;
      if (!fails(candidate)) continue;
      graph = std::move(candidate);
      smaller = true;
    }
    for (size_t i = graph.nodes.size(); i-- > 0;) {
      Graph candidate = graph;
      if (!drop_node(candidate, i) || !fails(candidate)) continue;
      graph = std::move(candidate);
      smaller = true;
    }
  }
  return graph;
}

/// Runs `violation` on random joint graphs. It returns a description of the failure, or "". The
/// first failing graph is shrunk and printed with its seed.
inline void hold_for_random_graphs(int cases, int size,
                                   const std::function<std::string(const Graph&)>& violation) {
  const auto guarded = [&](const Graph& graph) {
    try {
      return violation(graph);
    } catch (const std::exception& error) {
      return std::string(error.what());
    }
  };
  if (long_run()) cases *= 20;
  for (int seed = 0; seed < cases; ++seed) {
    const Graph graph = RandomGraph(static_cast<uint64_t>(seed)).joint(1 + seed % size);
    if (guarded(graph).empty()) continue;
    const Graph small = shrink(graph, [&](const Graph& g) { return !guarded(g).empty(); });
    FAIL() << "seed " << seed << ": " << guarded(small) << "\n" << to_text(small);
  }
}

}  // namespace antegrad::testing
