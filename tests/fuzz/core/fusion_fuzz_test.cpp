#include "fusion/groups.h"

#include <algorithm>
#include <optional>

#include <gtest/gtest.h>

#include "cost/node_cost.h"
#include "fusion/loops.h"
#include "graph/analysis.h"
#include "graph/verify.h"
#include "partition/steps.h"
#include "passes/dce.h"
#include "shrink.h"

namespace antegrad::testing {
namespace fusion_fuzz_test {

constexpr int kCases = 1500;
constexpr int kSize = 24;

/// For each position, the later nodes that depend on its results, directly or not. Brute force.
std::vector<std::vector<bool>> reach(const Graph& graph) {
  const size_t count = graph.nodes.size();
  std::vector<std::vector<bool>> reaches(count, std::vector<bool>(count, false));
  const IdMap<ValueId, int32_t> producer = producers(graph);
  for (size_t user = 0; user < count; ++user) {
    for (const ValueId id : graph.nodes[user].inputs) {
      const int32_t made = producer[id];
      if (made < 0) continue;
      for (size_t before = 0; before < count; ++before) {
        const bool leads_there = before == static_cast<size_t>(made) || reaches[before][made];
        if (leads_there) reaches[before][user] = true;
      }
    }
  }
  return reaches;
}

std::string leaves_and_comes_back(const Graph& graph, const FusionGroups& found) {
  const auto reaches = reach(graph);
  const size_t count = graph.nodes.size();
  for (size_t between = 0; between < count; ++between) {
    for (size_t g = 0; g < found.groups.size(); ++g) {
      if (found.of_node[between] == static_cast<int32_t>(g)) continue;
      bool from = false;
      bool to = false;
      for (const int32_t member : found.groups[g].nodes) {
        from = from || reaches[member][between];
        to = to || reaches[between][member];
      }
      if (from && to) {
        return "node " + std::to_string(graph.nodes[between].id) + " lies between nodes of a group";
      }
    }
  }
  return "";
}

/// All inputs of a group come from earlier groups, also through nodes outside of groups.
std::string runs_too_early(const Graph& graph, const FusionGroups& found) {
  IdMap<ValueId, int32_t> ready(graph.values.size(), -1);  // the last group that it is made of
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    int32_t last = -1;
    for (const ValueId id : graph.nodes[i].inputs) last = std::max(last, ready[id]);
    const int32_t own = found.of_node[i];
    if (own >= 0 && last > own) return "a group runs before what it reads";
    for (const ValueId id : graph.nodes[i].outputs) {
      if (id != kNoValue) ready[id] = std::max(last, own);
    }
  }
  return "";
}

/// Expects that two nodes of a group with a producer-reader edge are fusible for the partitioners
/// too, unless one is an operator over rows.
std::string joins_other_pairs(const Graph& graph, const FusionGroups& found) {
  const StepGraph steps(graph, {});
  const IdMap<ValueId, int32_t> producer = producers(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& user = graph.nodes[i];
    for (const ValueId id : user.inputs) {
      const int32_t made = producer[id];
      if (graph.value(id).kind != ValueKind::tensor || made < 0) continue;
      if (found.of_node[i] < 0 || found.of_node[i] != found.of_node[made]) continue;
      if (is_joint(graph) && user.phase != graph.nodes[made].phase) return "two phases in a group";
      if (row_loops_of(graph, user) || row_loops_of(graph, graph.nodes[made])) continue;
      for (const ValueId output : user.outputs) {
        if (output == kNoValue || steps.of_value(output) < 0) continue;
        if (!steps.fusible(steps.of_value(id), steps.of_value(output))) {
          return "%" + to_string(id) + " and its reader are no pair";
        }
      }
    }
  }
  return "";
}

/// A value counts as not materialised if no other node and no output uses its storage outside of
/// one group.
std::string counts_wrongly(const Graph& graph, const FusionGroups& found) {
  IdMap<StorageId, std::optional<int32_t>> only(graph.values.size());  // the group that uses it
  IdMap<StorageId, bool> shared(graph.values.size(), false);
  const auto touch = [&](ValueId id, int32_t group) {
    if (id == kNoValue || graph.value(id).kind != ValueKind::tensor) return;
    const StorageId storage = graph.value(id).storage;
    if (group < 0 || only[storage].value_or(group) != group) shared[storage] = true;
    only[storage] = group;
  };
  for (const Input& input : graph.inputs) touch(input.value, -1);
  for (const Output& output : graph.outputs) touch(output.value, -1);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const ValueId id : graph.nodes[i].inputs) touch(id, found.of_node[i]);
    for (const ValueId id : graph.nodes[i].outputs) touch(id, found.of_node[i]);
  }
  int64_t expected = 0;
  for (const Node& node : graph.nodes) {
    for (const ValueId id : node.outputs) {
      const StorageId own(id);
      if (id == kNoValue || !graph.owns_storage(id) || shared[own]) continue;
      const int32_t group = only[own].value_or(-1);
      if (group >= 0 && found.groups[group].generated) {
        expected += moved_bytes(graph.value(id));
      }
    }
  }
  int64_t counted = 0;
  for (const FusionGroup& group : found.groups) counted += group.bytes_vanished;
  return counted == expected
             ? ""
             : std::to_string(counted) + " bytes vanish, not " + std::to_string(expected);
}

TEST(FusionFuzz, GroupsCanRunAndAgreeWithPairs) {
  int64_t nodes = 0;
  int64_t in_larger_groups = 0;
  hold_for_random_graphs(kCases, kSize, [&](const Graph& random) -> std::string {
    const Graph graph = dce(random);
    const FusionGroups found = fusion_groups(graph);
    nodes += static_cast<int64_t>(graph.nodes.size());
    for (const FusionGroup& group : found.groups) {
      if (group.nodes.size() > 1) in_larger_groups += static_cast<int64_t>(group.nodes.size());
    }
    for (const auto& check :
         {leaves_and_comes_back, runs_too_early, joins_other_pairs, counts_wrongly}) {
      if (const std::string wrong = check(graph, found); !wrong.empty()) return wrong;
    }
    return "";
  });
  // The graphs are of a kind that fuses.
  EXPECT_GT(in_larger_groups, nodes / 4) << in_larger_groups << " of " << nodes;
}

}  // namespace fusion_fuzz_test
}  // namespace antegrad::testing
