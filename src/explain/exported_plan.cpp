#include "explain/exported_plan.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <antegrad/error.h>

#include "cost/machine.h"
#include "explain/import_json.h"
#include "explain/record.h"
#include "fusion/fused_nodes.h"
#include "fusion/inductor_buffers.h"
#include "fusion/loops.h"
#include "graph/analysis.h"
#include "graph/text.h"
#include "graph/verify.h"
#include "partition/split.h"
#include "passes/dce.h"

namespace antegrad {
namespace {

using nlohmann::json;

/// Whether the partitioner would run expensive nodes again. Otherwise its rules already exclude
/// draws and unknown operators.
bool lifts_bans(const PartitionChoice& choice) {
  return choice.partitioner == Partitioner::budget ||
         choice.min_cut.activation_memory_budget != 1 || !choice.min_cut.ban_recompute_random;
}

/// PyTorch's graphs do not carry the state of generators, so a draw cannot be repeated.
bool may_repeat(const Node& node) { return node.tokens == 0 && node.op.traits().known; }

void save_what_runs_once(Graph& joint, bool lifts_bans) {
  for (Node& node : joint.nodes) {
    const bool would_repeat = lifts_bans || node.recompute != Recompute::as_decided;
    if (would_repeat && !may_repeat(node)) node.recompute = Recompute::must_save;
  }
}

/// Counts memory and time as in code that Inductor generates. It returns tensors to the system's
/// allocator, or on CUDA to one that keeps memory.
void fuse(const Graph& joint, PartitionChoice& choice) {
  choice.machine = machine_of(joint);
  choice.fused = fused_nodes(joint, choice.symbols);
  drop_inductor_buffers(joint, choice.fused);
  choice.fresh_memory = true;
  choice.measured.seconds = fused_seconds(joint, choice.fused, choice.machine, choice.symbols);
}

json list_of(std::span<const ValueId> ids) {
  json list = json::array();
  for (const ValueId id : ids) list.push_back(id == kNoValue ? -1 : id.number());
  return list;
}

json saved_of(const Partition& partition, const ImportedGraph& imported) {
  json saved = json::array();
  for (const SavedSlot& slot : partition.plan.saved) {
    saved.push_back({slot.value.number(), imported.nodes_of_values[slot.value]});
  }
  return saved;
}

json forward_of(const Partition& partition, const ImportedGraph& imported) {
  json nodes = json::array();
  for (const Node& node : partition.forward.nodes) {
    nodes.push_back(imported.nodes_of_calls[node.id]);
  }
  return nodes;
}

/// A plan runs a fused node again for each reader. Readers in the same loop share one run; see
/// budget::Problem::loops.
class SharedRuns {
 public:
  SharedRuns(const Graph& backward, const std::vector<bool>& fused, bool in_order)
      : graph_(backward),
        fused_(fused),
        same_(backward.values.size()),
        read_(backward.values.size(), in_order) {
    for (const ValueId id : same_.ids()) same_[id] = id;
    for (auto node = backward.nodes.rbegin(); node != backward.nodes.rend(); ++node) {
      const bool reads = !node->op.traits().view || any_read(*node);
      for (const ValueId id : node->inputs) read_[id] = read_[id] || reads;
    }
  }

  /// Whether the node runs, in the order of the graph.
  bool runs(const Node& node) {
    const bool shows = only_shows(graph_, node);
    if (!is_flagged(node.id, fused_) && !shows) {
      if (!node.op.traits().fusible() && any_read(node)) there_.clear();
      return true;
    }
    const auto [it, added] = there_.try_emplace({node.id, inputs(node)}, node.outputs);
    for (size_t i = 0; i < node.outputs.size() && !added; ++i) {
      if (node.outputs[i] != kNoValue) same_[node.outputs[i]] = it->second[i];
    }
    return added;
  }

  std::vector<ValueId> inputs(const Node& node) const {
    std::vector<ValueId> ids(node.inputs.begin(), node.inputs.end() - node.tokens);
    for (ValueId& id : ids) id = id == kNoValue ? id : same_[id];
    return ids;
  }

 private:
  /// By a node, not only by views for outputs. True if kernels are not put off anyway.
  bool any_read(const Node& node) const {
    return std::ranges::any_of(node.outputs,
                               [&](ValueId id) { return id != kNoValue && read_[id]; });
  }

  const Graph& graph_;
  const std::vector<bool>& fused_;
  IdMap<ValueId, ValueId> same_;
  IdMap<ValueId, bool> read_;
  std::map<std::pair<int32_t, std::vector<ValueId>>, std::vector<ValueId>> there_;
};

json backward_of(const Partition& partition, const ImportedGraph& imported,
                 const std::vector<bool>& fused, bool in_order) {
  std::set<int32_t> in_forward;
  for (const Node& node : partition.forward.nodes) in_forward.insert(node.id);
  SharedRuns shared(partition.backward, fused, in_order);
  json nodes = json::array();
  for (const Node& node : partition.backward.nodes) {
    AG_CHECK(may_repeat(node) || !in_forward.contains(node.id), "runs again: " + node.op.name());
    if (!shared.runs(node)) continue;
    nodes.push_back({{"node", imported.nodes_of_calls[node.id]},
                     {"in", list_of(shared.inputs(node))},
                     {"out", list_of(node.results())}});
  }
  return nodes;
}

}  // namespace

std::string plan_exported(std::string_view exported, PartitionChoice choice,
                          ExportedKernels kernels) {
  const ImportedGraph imported = import_json(exported, "the joint graph");
  choice.simplify = false;
  row_of(choice.partitioner).check(choice);
  Graph joint = dce(imported.graph);
  verify(joint);
  save_what_runs_once(joint, lifts_bans(choice));
  if (kernels != ExportedKernels::one_by_one) fuse(joint, choice);
  if (!has_backward(joint)) {
    throw GraphError(ErrorText{"a joint graph with gradients", "one without", ""});
  }
  const auto [partition, planned] = partition_for(joint, choice);
  if (planned) fix_budget(choice, *planned);
  const PartitionRecord record = make_record(partition, choice);
  const bool in_order = kernels == ExportedKernels::generated_in_order;
  return json{{"saved", saved_of(partition, imported)},
              {"forward", forward_of(partition, imported)},
              {"backward", backward_of(partition, imported, choice.fused, in_order)},
              {"peak_bytes", record.peak},
              {"graph", to_text(GraphFile{std::move(joint), to_text(record)})}}
      .dump();
}

}  // namespace antegrad
