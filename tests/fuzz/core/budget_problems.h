#pragma once

/// \file
/// Shared by the fuzz tests of byte budgets: problems from random graphs, and all plans of a small
/// problem.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "partition/budget/candidates.h"
#include "partition/budget/plan.h"
#include "partition/budget/problem.h"
#include "random_network.h"
#include "shrink.h"

namespace antegrad::testing {

/// Random times by node, up to a millisecond.
inline std::vector<double> random_times(const Graph& graph) {
  std::mt19937_64 random(graph.nodes.size());
  std::vector<double> times(graph.nodes.size());
  for (double& time : times) time = static_cast<double>(random() % 1000) * 1e-6;
  return times;
}

/// For ByteRules::fused: half of the nodes whose results no graph output shows.
inline std::vector<bool> random_fused(const Graph& graph) {
  IdMap<StorageId, bool> shown(graph.values.size(), false);
  for (const Output& output : graph.outputs) {
    if (graph.is_tensor(output.value)) shown[graph.value(output.value).storage] = true;
  }
  std::mt19937_64 random(graph.nodes.size());
  std::vector<bool> fused;
  for (const Node& node : graph.nodes) {
    const bool free = std::ranges::none_of(node.outputs, [&](ValueId id) {
      return graph.is_tensor(id) && shown[graph.value(id).storage];
    });
    const auto id = static_cast<size_t>(node.id);
    fused.resize(std::max(fused.size(), id + 1), false);
    fused[id] = free && random() % 2 == 0;
  }
  return fused;
}

/// For make_problem(): saving a fused value takes about as long as an operation.
inline constexpr double kSecondsPerByte = 1e-6;

/// The problem of a graph without dead code. Bytes are not rounded. In every other one, some nodes
/// are fused.
inline budget::Problem problem_of(const Graph& graph, const std::vector<double>& times) {
  ByteRules rules;
  rules.granule = 1;
  if (graph.nodes.size() % 2 == 0) rules.fused = random_fused(graph);
  return budget::make_problem(graph, times, rules);
}

inline budget::Problem problem_of(const Graph& graph) {
  return problem_of(graph, random_times(graph));
}

inline std::vector<int32_t> choices_of(const budget::Problem& problem) {
  return budget::Candidates(problem).values();
}

/// Calls `each` with all plans without windows that differ from `plan` only in the open values.
template <class Each>
void for_each_plan(const std::vector<int32_t>& open, budget::Plan plan, Each each) {
  for (size_t bits = 0; bits < (size_t{1} << open.size()); ++bits) {
    for (size_t i = 0; i < open.size(); ++i) {
      plan[open[i]] = (bits >> i & 1) != 0 ? budget::kSave : budget::kRecompute;
    }
    each(plan);
  }
}

/// Expects that `violation` finds nothing, on random graphs, whose backward reads random values,
/// and on random networks.
inline void hold_for_graphs_and_networks(
    int cases, int size, const std::function<std::string(const Graph&)>& violation) {
  hold_for_random_graphs(cases, size, violation);
  for (int seed = 0; seed < (long_tests() ? 10 * cases : cases); ++seed) {
    const Graph network = RandomNetwork(static_cast<uint64_t>(seed)).joint(1 + seed % size);
    ASSERT_EQ(violation(network), "") << "network of seed " << seed;
  }
}

}  // namespace antegrad::testing
