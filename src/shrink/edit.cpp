#include "shrink/edit.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "graph/analysis.h"
#include "passes/dce.h"

namespace antegrad {
namespace {

int place(const Input& input) {
  if (input.kind == InputKind::tangent) return 2;
  return input.kind == InputKind::primal || input.kind == InputKind::saved ? 0 : 1;
}
int place(const Output& output) { return static_cast<int>(output.kind); }

// Keeps the chosen records in the order of the calling convention. Returns new positions by old
// ones, -1 for those that went.
template <class Record>
std::vector<int32_t> arrange(std::vector<Record>& records, const std::vector<bool>& keep) {
  std::vector<size_t> order;
  for (size_t i = 0; i < records.size(); ++i) {
    if (keep[i]) order.push_back(i);
  }
  std::ranges::stable_sort(order, {}, [&](size_t i) { return place(records[i]); });
  std::vector<int32_t> moved(records.size(), -1);
  std::vector<Record> arranged;
  for (const size_t i : order) {
    moved[i] = static_cast<int32_t>(arranged.size());
    arranged.push_back(std::move(records[i]));
  }
  records = std::move(arranged);
  return moved;
}

// Keeps the chosen inputs and outputs and updates all references to their positions. Only a graph
// with primals has such references; those of a backward graph are to its forward.
void arrange(Graph& graph, const std::vector<bool>& inputs, const std::vector<bool>& outputs) {
  const bool refers = has_primals(graph);
  const auto input_at = arrange(graph.inputs, inputs);
  const auto output_at = arrange(graph.outputs, outputs);
  if (!refers) return;
  for (Input& input : graph.inputs) {
    if (input.kind == InputKind::tangent) input.index = output_at[input.index];
    if (input.source.kind == Source::Kind::gradient) {
      input.source.index = input_at[input.source.index];
    }
  }
  for (Output& output : graph.outputs) {
    const bool of_input =
        output.kind == OutputKind::mutated_input || output.kind == OutputKind::gradient;
    if (of_input) output.index = input_at[output.index];
    if (output.alias.of_input()) output.alias.index = input_at[output.alias.index];
    if (output.alias.of_output()) output.alias.index = output_at[output.alias.index];
  }
}

void arrange(Graph& graph) {
  arrange(graph, std::vector<bool>(graph.inputs.size(), true),
          std::vector<bool>(graph.outputs.size(), true));
}

// Storages as they follow from the nodes.
void derive_storages(Graph& graph) {
  const auto set = [&](ValueId id, StorageId storage) {
    Value& value = graph.value(id);
    if (value.kind != ValueKind::tensor) return;
    if (value.alias_class == value.storage) value.alias_class = storage;
    value.storage = storage;
  };
  for (const Input& input : graph.inputs) set(input.value, StorageId(input.value));
  for (const Node& node : graph.nodes) {
    const OpTraits& traits = node.op.traits();
    bool shares = (traits.view || traits.mutates) && !node.inputs.empty();
    for (const ValueId id : node.results()) {
      if (id == kNoValue) continue;
      set(id, shares ? graph.value(node.inputs[0]).storage : StorageId(id));
      shares = shares && traits.view;
    }
  }
}

// Results that came to share memory with a primal say so.
void name_aliases(Graph& graph) {
  for (Output& output : graph.outputs) {
    const bool unnamed = output.kind == OutputKind::result &&
                         output.alias.kind == OutputAlias::Kind::none &&
                         graph.is_tensor(output.value);
    if (!unnamed) continue;
    for (size_t i = 0; i < graph.inputs.size(); ++i) {
      const Input& input = graph.inputs[i];
      if (input.kind != InputKind::primal) continue;
      if (graph.value(output.value).storage != graph.value(input.value).storage) continue;
      const auto kind = output.value == input.value ? OutputAlias::Kind::is_input
                                                    : OutputAlias::Kind::view_of_input;
      output.alias = {kind, static_cast<int32_t>(i)};
    }
  }
}

// Inputs that something reads or refers to, and the only primal.
std::vector<bool> needed_inputs(const Graph& graph) {
  IdMap<ValueId, bool> read = output_values(graph);
  for (const Node& node : graph.nodes) {
    for (const ValueId id : node.inputs) read[id] = true;
  }
  std::vector<bool> keep;
  for (const Input& input : graph.inputs) keep.push_back(read[input.value]);
  if (!has_primals(graph)) return keep;
  for (const Output& output : graph.outputs) {
    const bool of_input =
        output.kind == OutputKind::mutated_input || output.kind == OutputKind::gradient;
    if (of_input) keep[output.index] = true;
    if (output.alias.of_input()) keep[output.alias.index] = true;
  }
  bool primal = false;
  for (size_t i = graph.inputs.size(); i-- > 0;) {
    const Input& input = graph.inputs[i];
    if (!keep[i]) continue;
    primal = primal || input.kind == InputKind::primal;
    if (input.source.kind == Source::Kind::gradient) keep[input.source.index] = true;
  }
  if (!primal) keep.front() = true;
  return keep;
}

// Defined outputs, and those to which a kept record refers. A token that nothing advances is not
// needed.
std::vector<bool> needed_outputs(const Graph& graph, const std::vector<bool>& inputs) {
  IdMap<ValueId, bool> untouched(graph.values.size(), false);
  for (const Input& input : graph.inputs) {
    if (graph.value(input.value).kind == ValueKind::token) untouched[input.value] = true;
  }
  std::vector<bool> keep;
  for (const Output& output : graph.outputs) {
    keep.push_back(output.value != kNoValue && !untouched[output.value]);
  }
  if (!has_primals(graph)) return keep;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Input& input = graph.inputs[i];
    if (inputs[i] && input.kind == InputKind::tangent) keep[input.index] = true;
  }
  for (size_t i = 0; i < keep.size(); ++i) {
    if (keep[i] && graph.outputs[i].alias.of_output()) keep[graph.outputs[i].alias.index] = true;
  }
  return keep;
}

Graph tidy(Graph graph) {
  graph = dce(std::move(graph));
  derive_storages(graph);
  name_aliases(graph);
  // Outputs that go free inputs.
  for (int round = 0; round < 2; ++round) {
    auto outputs = needed_outputs(graph, needed_inputs(graph));
    arrange(graph, std::vector<bool>(graph.inputs.size(), true), outputs);
    arrange(graph, needed_inputs(graph), std::vector<bool>(graph.outputs.size(), true));
  }
  return graph;
}

// The values that depend on a tangent.
IdMap<ValueId, bool> after_tangents(const Graph& graph) {
  IdMap<ValueId, bool> late(graph.values.size(), false);
  for (const Input& input : graph.inputs) {
    if (input.kind == InputKind::tangent) late[input.value] = true;
  }
  dependent_nodes(graph, late, [](int32_t) { return false; });
  return late;
}

class Cutter {
 public:
  Cutter(const Graph& graph, const std::vector<bool>& removed, Cut cut)
      : graph_(graph), removed_(removed), cut_(cut), late_(after_tangents(graph)) {}

  Graph run() {
    const bool joint = has_primals(graph_);
    IdMap<ValueId, bool> read_before(graph_.values.size(), false), made = read_before;
    for (size_t i = 0; i < removed_.size(); ++i) {
      if (!removed_[i]) continue;
      const Node& node = graph_.nodes[i];
      for (const ValueId id : node.inputs) read_before[id] = graph_.is_tensor(id);
      for (const ValueId id : node.results()) {
        if (id != kNoValue) made[id] = true;
      }
      bypass_tokens(node);
    }
    erase_nodes(graph_, removed_);
    IdMap<ValueId, bool> read(graph_.values.size(), false);
    for (const Node& node : graph_.nodes) {
      for (const ValueId id : node.inputs) read[id] = true;
    }
    for (Output& output : graph_.outputs) {
      if (output.value == kNoValue) continue;
      // An output that nothing computes any more says nothing.
      const bool may_go = output.kind == OutputKind::result || output.kind == OutputKind::gradient;
      if (may_go && made[output.value]) {
        output.value = kNoValue;
        output.alias = {};
      } else {
        read[output.value] = true;
      }
    }
    for (size_t i = 0; i < made.size(); ++i) {
      const ValueId id(i);
      if (made[id] && read[id]) add_input(id, joint);
    }
    if (cut_.expose && joint) {
      for (const Node& node : std::vector(graph_.nodes)) {
        for (const ValueId id : node.results()) {
          if (id != kNoValue && read_before[id] && !read[id]) expose(id);
        }
      }
    }
    arrange(graph_);
    return tidy(std::move(graph_));
  }

 private:
  void bypass_tokens(const Node& node) {
    for (int32_t i = 1; i <= node.tokens; ++i) {
      const ValueId before = *(node.inputs.end() - i), after = *(node.outputs.end() - i);
      for (Node& other : graph_.nodes) std::ranges::replace(other.inputs, after, before);
      for (Output& output : graph_.outputs) {
        if (output.value == after) output.value = before;
      }
    }
  }

  Input primal(ValueId id) const {
    Input input;
    input.value = id;
    input.source = {Source::Kind::argument, static_cast<int32_t>(graph_.inputs.size()), ""};
    return input;
  }

  void add_input(ValueId id, bool joint) {
    Input input = primal(id);
    if (!joint) {
      input.kind = InputKind::saved;
      input.source = {};
    } else if (late_[id] && cut_.tangents) {
      input.kind = InputKind::tangent;
      input.source = {};
      input.index = static_cast<int32_t>(graph_.outputs.size());
      graph_.outputs.emplace_back().requires_grad = true;
    }
    graph_.inputs.push_back(input);
  }

  void expose(ValueId id) {
    if (!graph_.is_tensor(id)) return;
    Output output;
    output.value = id;
    if (late_[id]) {
      output.kind = OutputKind::gradient;
      output.index = static_cast<int32_t>(graph_.inputs.size());
      TensorMeta meta = graph_.value(id).meta;
      meta.strides = contiguous_strides(meta.sizes);
      meta.offset = 0;
      Input receiver = primal(graph_.add_tensor(std::move(meta)));
      receiver.requires_grad = true;
      graph_.inputs.push_back(receiver);
    }
    graph_.outputs.push_back(output);
  }

  Graph graph_;
  const std::vector<bool>& removed_;
  const Cut cut_;
  const IdMap<ValueId, bool> late_;
};

}  // namespace

Graph without_nodes(const Graph& graph, const std::vector<bool>& removed, Cut cut) {
  return Cutter(graph, removed, cut).run();
}

Graph without_outputs(Graph graph, const std::vector<bool>& removed) {
  const bool joint = has_primals(graph);
  std::vector<bool> gone = removed;
  std::vector<bool> has_tangent(graph.outputs.size(), false);
  for (const Input& input : graph.inputs) {
    if (joint && input.kind == InputKind::tangent) has_tangent[input.index] = true;
  }
  for (size_t i = 0; i < gone.size(); ++i) {
    const OutputAlias& alias = graph.outputs[i].alias;
    if (alias.of_output() && gone[alias.index]) gone[i] = true;
  }
  std::vector<bool> keep(gone.size(), true);
  for (size_t i = 0; i < gone.size(); ++i) {
    Output& output = graph.outputs[i];
    if (!gone[i]) continue;
    switch (output.kind) {
      case OutputKind::result:
      case OutputKind::gradient:
        output.value = kNoValue;
        output.alias = {};
        break;
      case OutputKind::mutated_input:
        if (has_tangent[i] || !joint) break;
        graph.inputs[output.index].mutates_data = false;
        graph.inputs[output.index].mutates_metadata = false;
        graph.inputs[output.index].version_bumps = 0;
        graph.inputs[output.index].storage = InputStorage::kept;
        graph.inputs[output.index].storage_bytes = 0;
        keep[i] = false;
        break;
      case OutputKind::base:
      case OutputKind::saved: keep[i] = has_tangent[i]; break;
      case OutputKind::generator_token:
      case OutputKind::effect_token: break;
    }
  }
  // A view of a base that went is undefined by now.
  arrange(graph, std::vector<bool>(graph.inputs.size(), true), keep);
  return tidy(std::move(graph));
}

Graph with_replacement(Graph graph, ValueId value, ValueId by) {
  for (Node& node : graph.nodes) std::ranges::replace(node.inputs, value, by);
  for (Output& output : graph.outputs) {
    if (output.value == value) output.value = by;
  }
  return tidy(std::move(graph));
}

}  // namespace antegrad
