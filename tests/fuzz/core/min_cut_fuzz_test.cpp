#include "partition/min_cut.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include "graph/analysis.h"
#include "partition/default_partition.h"
#include "partition/split.h"
#include "partition/tags.h"
#include "partition_checks.h"
#include "passes/cse.h"
#include "passes/dce.h"
#include "shrink.h"
#include "support/joint_graph.h"
#include "support/switches.h"

namespace antegrad::testing {
namespace min_cut_fuzz_test {

constexpr int kCases = 1500;
constexpr int kSize = 24;

/// Turns some primals into parameters, which changes what is free to save.
Graph with_parameters(Graph graph, uint64_t seed) {
  std::mt19937_64 random(seed);
  for (Input& input : graph.inputs) {
    if (input.kind != InputKind::primal || random() % 2 == 0) continue;
    input.source = {Source::Kind::parameter, -1, "p" + to_string(input.value)};
  }
  return graph;
}

MinCutOptions random_options(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto coin = [&] { return random() % 2 == 0; };
  MinCutOptions options;
  for (const auto& [name, value] : switches(options)) {
    apply_setting(options, name + (coin() ? "=true" : "=false"));
  }
  options.max_dist_from_bw = coin() ? 1000 : static_cast<int32_t>(random() % 4);
  return options;
}

/// A number derived from the graph, so that a shrunken graph is tried as it failed.
uint64_t seed_of(const Graph& graph) { return graph.nodes.size() * 31 + graph.outputs.size(); }

/// Expects exactly one correct decision for each value that the backward reads or recomputes.
std::string tells_wrongly(const Partition& partition) {
  std::vector<ValueId> saved;
  std::vector<ValueId> computed;
  for (const Decision& decision : partition.decisions) {
    if (decision.rule.empty()) return "no rule for %" + to_string(decision.value);
    (decision.saved ? saved : computed).push_back(decision.value);
  }
  std::vector<ValueId> expected_saved;
  for (const SavedSlot& value : partition.plan.saved) expected_saved.push_back(value.value);
  if (saved != expected_saved) return "saved values are told wrongly";
  const IdMap<ValueId, int32_t> producer = producers(partition.backward);
  const IdMap<ValueId, int32_t> last_use =
      last_uses(partition.backward, Uses::by_nodes_and_outputs);
  for (const ValueId id : saved) {
    if (last_use[id] < 0) return "nothing needs the saved %" + to_string(id);
  }
  for (const ValueId id : computed) {
    if (producer[id] < 0) return "the backward does not compute %" + to_string(id);
  }
  return "";
}

/// Bytes held for the backward only: without results, and with primals only if the call overwrites
/// them.
int64_t extra_bytes(const Partition& partition) {
  const IdMap<ValueId, int32_t> position = input_positions(partition.forward);
  int64_t sum = 0;
  for (const SavedSlot& saved : partition.plan.saved) {
    const int32_t input = position[saved.value];
    const bool held = name(saved) == "result" ||
                      (name(saved) == "primal" && !partition.forward.inputs[input].mutates_data);
    if (!held) sum += saved.bytes.constant();
  }
  return sum;
}

TEST(MinCutFuzz, ComputesWhatTheJointGraphComputes) {
  hold_for_random_graphs(kCases, kSize, [](const Graph& graph) {
    const Graph joint = dce(cse(dce(with_parameters(graph, seed_of(graph)))));
    const Partition partition = min_cut_partition(joint);
    const std::string wrong = splits_wrongly(joint, partition);
    return wrong.empty() ? tells_wrongly(partition) : wrong;
  });
}

TEST(MinCutFuzz, SoItDoesWithAnyOptions) {
  hold_for_random_graphs(kCases, kSize, [](const Graph& graph) {
    const uint64_t seed = seed_of(graph);
    const Graph joint = dce(with_parameters(graph, seed));
    const Partition partition = min_cut_partition(joint, random_options(seed));
    const std::string wrong = splits_wrongly(joint, partition);
    return wrong.empty() ? tells_wrongly(partition) : wrong;
  });
}

TEST(MinCutFuzz, SoItDoesUnderBudgets) {
  hold_for_random_graphs(kCases, kSize, [](const Graph& graph) {
    const uint64_t seed = seed_of(graph);
    const Graph joint = dce(with_parameters(graph, seed));
    MinCutOptions options = random_options(seed);
    options.activation_memory_budget = static_cast<double>(seed % 5) / 4;
    options.activation_memory_budget_solver =
        seed % 2 == 0 ? BudgetSolver::dp : BudgetSolver::greedy;
    const Partition partition = min_cut_partition(joint, options);
    const std::string wrong = splits_wrongly(joint, partition);
    return wrong.empty() ? tells_wrongly(partition) : wrong;
  });
}

/// Puts checkpoints with all kinds of policies around parts of the forward, nested or not.
Graph with_blocks(Graph graph, uint64_t seed) {
  std::mt19937_64 random(seed);
  int32_t current = -1;
  for (Node& node : graph.nodes) {
    if (node.phase != Phase::forward) continue;
    const auto dice = random() % 10;
    if (dice < 3) {
      graph.blocks.push_back(current);
      current = static_cast<int32_t>(graph.blocks.size()) - 1;
    } else if (dice < 5 && current >= 0) {
      current = graph.blocks[static_cast<size_t>(current)];
    }
    node.block = current;
    if (current < 0) continue;
    const auto policy = random() % 12;
    node.recompute = policy < 4 ? static_cast<Recompute>(policy + 1) : Recompute::must_recompute;
  }
  return graph;
}

/// Values that a checkpoint recomputes must not be saved.
std::string keeps_interior(const Graph& joint, const Partition& partition) {
  const Tags tags(joint);
  for (const SavedSlot& saved : partition.plan.saved) {
    if (tags.is_interior(saved.value))
      return "the interior %" + to_string(saved.value) + " is saved";
  }
  return "";
}

TEST(MinCutFuzz, CheckpointsComputeWhatTheJointGraphComputes) {
  int recomputed = 0;
  hold_for_random_graphs(kCases, kSize, [&](const Graph& graph) -> std::string {
    const uint64_t seed = seed_of(graph);
    const Graph joint = dce(cse(dce(with_blocks(with_parameters(graph, seed), seed))));
    for (const bool min_cut : {false, true}) {
      const Partition partition =
          min_cut ? min_cut_partition(joint, random_options(seed)) : default_partition(joint);
      for (const Node& node : partition.backward.nodes) {
        recomputed += node.recompute == Recompute::must_recompute;
      }
      if (std::string wrong = splits_wrongly(joint, partition); !wrong.empty()) return wrong;
      if (std::string wrong = keeps_interior(joint, partition); !wrong.empty()) return wrong;
      if (!min_cut) continue;
      if (std::string wrong = tells_wrongly(partition); !wrong.empty()) return wrong;
      MinCutOptions options = random_options(seed);
      options.activation_memory_budget = 0;
      const Partition least = min_cut_partition(joint, options);
      if (std::string wrong = splits_wrongly(joint, least); !wrong.empty()) return wrong;
      if (std::string wrong = keeps_interior(joint, least); !wrong.empty()) return wrong;
    }
    return "";
  });
  EXPECT_GT(recomputed, kCases);
}

TEST(MinCutFuzz, SavesNoMoreBytesThanTheDefaultPartition) {
  hold_for_random_graphs(kCases, kSize, [](const Graph& graph) -> std::string {
    const uint64_t seed = seed_of(graph);
    const Graph joint = dce(with_parameters(graph, seed));
    for (const bool plain : {false, true}) {
      MinCutOptions options = plain ? MinCutOptions() : random_options(seed);
      options.never_more_than_default = true;
      const int64_t ours = extra_bytes(min_cut_partition(joint, options));
      const int64_t others = extra_bytes(default_partition(joint));
      if (ours > others) return std::to_string(ours) + " bytes, not " + std::to_string(others);
    }
    return "";
  });
}

// --- against all saved sets ----------------------------------------------------------------------

/// A joint graph for counting bytes: nodes with one or two outputs of random sizes and random
/// inputs; the backward reads a few values.
Graph sized_graph(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto pick = [&](size_t below) { return static_cast<size_t>(random() % below); };
  JointGraph graph("sized");
  std::vector<ValueId> values;
  const auto any_size = [&] { return dense({static_cast<int64_t>(1 + pick(30))}); };
  const auto call = [&](std::vector<ValueId> inputs, size_t outputs) {
    std::vector<TensorMeta> metas;
    for (size_t i = 0; i < outputs; ++i) metas.push_back(any_size());
    return graph.call(outputs == 1 ? "aten::gather.default" : "aten::var_mean.default",
                      std::move(inputs), metas);
  };
  for (size_t i = 0; i < 1 + pick(3); ++i) values.push_back(graph.primal(any_size()));
  const ValueId tangent = graph.tangent(0, any_size());
  const size_t nodes = 3 + pick(6);
  for (size_t i = 0; i < nodes; ++i) {
    std::vector<ValueId> inputs;
    for (size_t k = 0; k < 1 + pick(3); ++k) {
      // Late values more often than early ones, so that graphs get deep.
      inputs.push_back(values[std::max(pick(values.size()), pick(values.size()))]);
    }
    const auto made = call(std::move(inputs), 1 + pick(4) / 3);
    values.insert(values.end(), made.begin(), made.end());
  }
  graph.result(values.back());
  graph.begin_backward();
  ValueId gradient = tangent;
  for (size_t i = 0; i < 1 + pick(4); ++i) {
    gradient = call({gradient, values[pick(values.size())]}, 1)[0];
  }
  graph.gradient(0, gradient);
  return dce(graph.finish());
}

int64_t all_bytes(const Partition& partition) {
  int64_t sum = 0;
  for (const SavedSlot& saved : partition.plan.saved) sum += saved.bytes.constant();
  return sum;
}

/// Values of the forward that own their storage and can therefore be saved. Inputs are saved where
/// needed.
std::vector<ValueId> candidates(const Graph& joint) {
  std::vector<ValueId> ids;
  for (const Node& node : joint.nodes) {
    if (node.phase != Phase::forward) continue;
    for (const ValueId id : node.outputs) {
      if (id != kNoValue && joint.owns_storage(id)) ids.push_back(id);
    }
  }
  return ids;
}

/// The smallest number of bytes among all subsets of `ids`, by splitting at each.
int64_t fewest_bytes(const Graph& joint, const std::vector<ValueId>& ids) {
  int64_t fewest = -1;
  for (unsigned bits = 0; bits < 1u << ids.size(); ++bits) {
    IdMap<ValueId, bool> saved(joint.values.size(), false);
    for (size_t i = 0; i < ids.size(); ++i) saved[ids[i]] = (bits >> i) & 1u;
    const int64_t bytes = all_bytes(split_at(joint, saved));
    if (fewest < 0 || bytes < fewest) fewest = bytes;
  }
  return fewest;
}

TEST(MinCutFuzz, WithoutBansAndFactorsNoSetOfFewerBytesWouldDo) {
  MinCutOptions options;
  options.aggressive_recomputation = true;
  options.ban_recompute_compute_intensive = false;
  options.ban_recompute_reductions = false;
  options.treat_parameters_as_free_to_save = false;
  options.recompute_low_precision_weights = false;
  options.distance_weighting = false;
  options.double_unmaterialized = false;
  options.never_more_than_default = false;
  const int cases = long_tests() ? 20'000 : 1'000;
  int against_default = 0;
  for (int seed = 0; seed < cases; ++seed) {
    const Graph joint = sized_graph(static_cast<uint64_t>(seed));
    const std::vector<ValueId> ids = candidates(joint);
    if (ids.size() > 9) continue;
    const int64_t fewest = fewest_bytes(joint, ids);
    ASSERT_EQ(all_bytes(min_cut_partition(joint, options)), fewest) << to_text(joint);
    against_default += all_bytes(default_partition(joint)) > fewest;
  }
  EXPECT_GT(against_default, cases / 4);
}

}  // namespace min_cut_fuzz_test
}  // namespace antegrad::testing
