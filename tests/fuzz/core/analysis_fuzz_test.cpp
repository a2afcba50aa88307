#include "graph/analysis.h"

#include <gtest/gtest.h>

#include "partition/steps.h"
#include "shrink.h"

namespace antegrad::testing {
namespace analysis_fuzz_test {

constexpr int kCases = 1500;
constexpr int kSize = 24;

bool contains(const std::vector<ValueId>& ids, ValueId id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

bool is_output(const Graph& graph, ValueId id) {
  return std::any_of(graph.outputs.begin(), graph.outputs.end(),
                     [&](const Output& output) { return output.value == id; });
}

/// Checks the results for each value by inspecting every node.
std::string tells_values_wrongly(const Graph& graph) {
  const IdMap<ValueId, int32_t> producer = producers(graph);
  const IdMap<ValueId, int32_t> by_nodes = last_uses(graph, Uses::by_nodes);
  const IdMap<ValueId, int32_t> uses = last_uses(graph, Uses::by_nodes_and_outputs);
  const IdMap<StorageId, int32_t> storage_uses =
      last_storage_uses(graph, Uses::by_nodes_and_outputs);
  const IdMap<ValueId, bool> outputs = output_values(graph);
  const auto count = static_cast<int32_t>(graph.nodes.size());
  IdMap<StorageId, int32_t> of_storage(graph.values.size(), -1);
  for (const ValueId id : graph.values.ids()) {
    int32_t made = -1;
    int32_t read = -1;
    for (int32_t i = 0; i < count; ++i) {
      if (contains(graph.nodes[i].outputs, id)) made = i;
      if (contains(graph.nodes[i].inputs, id)) read = i;
    }
    const int32_t used = is_output(graph, id) ? count : read;
    if (producer[id] != made) return "the producer of %" + to_string(id);
    if (by_nodes[id] != read) return "the last reader of %" + to_string(id);
    if (uses[id] != used) return "the last use of %" + to_string(id);
    if (outputs[id] != is_output(graph, id)) return "whether it is output: " + to_string(id);
    int32_t& storage = of_storage[graph.value(id).storage];
    storage = std::max({storage, made, used});
  }
  return storage_uses == of_storage ? "" : "the last use of a storage";
}

/// Grows the marks along the edges, node by node, until nothing changes.
template <class Grow>
IdMap<ValueId, bool> closure(const Graph& graph, IdMap<ValueId, bool> marked, Grow grow) {
  for (IdMap<ValueId, bool> before; before != marked;) {
    before = marked;
    for (const Node& node : graph.nodes) grow(node, marked);
  }
  return marked;
}

IdMap<ValueId, bool> random_marks(const Graph& graph, uint64_t seed) {
  std::mt19937_64 random(seed);
  IdMap<ValueId, bool> marked(graph.values.size());
  for (const ValueId id : marked.ids()) marked[id] = random() % 16 == 0;
  return marked;
}

std::string reaches_wrongly(const Graph& graph) {
  const IdMap<ValueId, bool> marked = random_marks(graph, graph.values.size());
  IdMap<ValueId, bool> needed = marked;
  const std::vector<bool> running = needed_nodes(graph, needed);
  const auto back = [](const Node& node, IdMap<ValueId, bool>& values) {
    for (const ValueId output : node.outputs) {
      if (output == kNoValue || !values[output]) continue;
      for (const ValueId input : node.inputs) values[input] = true;
    }
  };
  if (needed != closure(graph, marked, back)) return "what values need";
  IdMap<ValueId, bool> depends = marked;
  const std::vector<bool> dependent =
      dependent_nodes(graph, depends, [](int32_t position) { return position % 13 == 5; });
  const auto forth = [&](const Node& node, IdMap<ValueId, bool>& values) {
    const auto reads = [&](ValueId id) { return bool(values[id]); };
    if ((&node - graph.nodes.data()) % 13 != 5 &&
        std::none_of(node.inputs.begin(), node.inputs.end(), reads)) {
      return;
    }
    for (const ValueId id : node.outputs) {
      if (id != kNoValue && graph.value(id).kind != ValueKind::token) values[id] = true;
    }
  };
  if (depends != closure(graph, marked, forth)) return "what depends on values";
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (running[i] != any_marked(node.outputs, needed)) return "which nodes are needed";
    if (dependent[i] != (i % 13 == 5 || any_marked(node.inputs, depends)))
      return "which nodes depend";
  }
  return "";
}

TEST(AnalysisFuzz, AgreesWithASearchOfAllNodes) {
  hold_for_random_graphs(kCases, kSize, tells_values_wrongly);
}

TEST(AnalysisFuzz, ReachesWhatAFixedPointReaches) {
  hold_for_random_graphs(kCases, kSize, reaches_wrongly);
}

TEST(AnalysisFuzz, UsersOfStepsAreThoseThatReadThem) {
  hold_for_random_graphs(kCases, kSize, [](const Graph& graph) {
    const StepGraph steps(graph, {});
    for (int32_t made = 0; made < steps.size(); ++made) {
      std::vector<int32_t> expected;
      for (int32_t user = 0; user < steps.size(); ++user) {
        const Step& step = steps[user];
        if (step.node < 0) continue;
        const bool takes = step.picks && steps[made].node == step.node && !steps[made].picks;
        const bool reads = !step.picks && steps[made].value != kNoValue &&
                           contains(graph.nodes[step.node].inputs, steps[made].value);
        if (takes || reads) expected.push_back(user);
      }
      const auto users = steps.users(made);
      if (!std::equal(users.begin(), users.end(), expected.begin(), expected.end()))
        return "users of step " + std::to_string(made);
    }
    return std::string();
  });
}

}  // namespace analysis_fuzz_test
}  // namespace antegrad::testing
