#pragma once

/// \file
/// Shared by the fuzz tests: the number of cases, data for a graph, and a run that shrinks the
/// first failing graph.

#include <functional>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graph/text.h"
#include "interpreter.h"
#include "random_graph.h"
#include "shrink/shrink.h"
#include "support/long_tests.h"

namespace antegrad::testing {

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
  if (long_tests()) cases *= 20;
  for (int seed = 0; seed < cases; ++seed) {
    const Graph graph = RandomGraph(static_cast<uint64_t>(seed)).joint(1 + seed % size);
    if (guarded(graph).empty()) continue;
    const Graph small =
        shrink(graph, {.fails = [&](const Graph& g) { return !guarded(g).empty(); }});
    FAIL() << "seed " << seed << ": " << guarded(small) << "\n" << to_text(small);
  }
}

}  // namespace antegrad::testing
