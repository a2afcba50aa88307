#include "passes/reinplace.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "graph/analysis.h"
#include "graph/generated_node.h"

namespace antegrad {
namespace {

/// True if each byte of the span from the first to the last element belongs to exactly one element.
bool fills_its_span(const TensorMeta& meta) {
  return meta.offset == IntExpr(0) && span_bytes(meta) == numel(meta) * byte_size(meta.dtype);
}

bool rounds_in_place(const Node& node, DType dtype) {
  return node.op.traits().rounds_scalar_in_place && node.args.back().is<attr::Scalar>() &&
         (dtype == DType::bf16 || dtype == DType::f16);
}

class Reinplacer {
 public:
  Reinplacer(Graph& graph, const std::vector<ValueId>& donated)
      : graph_(graph),
        root_(graph.values.size()),
        last_use_(last_storage_uses(graph, Uses::by_nodes_and_outputs)),
        root_holder_(graph.values.size(), kNoValue),
        is_output_(output_values(graph)),
        update_of_(graph.values.size(), kNoValue),
        replaces_(graph.values.size()) {
    std::iota(root_.begin(), root_.end(), StorageId(0));
    for (const ValueId id : donated) note_memory(id);
    std::unordered_map<int32_t, ValueId> updates;  // by input
    for (const Output& output : graph.outputs) {
      if (!output.update || output.value == kNoValue) continue;
      if (output.kind == OutputKind::mutated_input) {
        note_update(graph.inputs[output.index].value, output.value);
      } else {
        updates.emplace(output.index, output.value);
      }
    }
    for (const Input& input : graph.inputs) {
      if (input.kind != InputKind::saved || !graph.is_tensor(input.value)) continue;
      const auto update = updates.find(input.index);
      if (update != updates.end()) note_update(input.value, update->second);
    }
  }

  void run() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      Node& node = graph_.nodes[i];
      const auto position = static_cast<int32_t>(i);
      if (is_generated(node)) {
        visit_generated(node, position);
      } else if (may_write(node, position)) {
        take_over(node.inputs[0], node.outputs[0]);
        node.op = Op::intern(node.op.info().inplace_name);
      } else {
        for (const ValueId output : node.outputs) note_memory(output);
      }
    }
    if (!changed_) return;
    for (Value& value : graph_.values) {
      if (!value.storage.valid()) continue;
      const StorageId root = root_[value.storage];
      if (value.alias_class == value.storage) value.alias_class = root;
      value.storage = root;
    }
  }

 private:
  StorageId root(ValueId id) const {
    const StorageId storage = graph_.value(id).storage;
    return storage.valid() ? root_[storage] : storage;
  }

  void note_update(ValueId input, ValueId update) {
    update_of_[StorageId(input)] = update;
    replaces_[update] = StorageId(input);
  }

  void note_memory(ValueId id) {
    if (!graph_.is_tensor(id) || !graph_.owns_storage(id)) return;
    const Value& value = graph_.value(id);
    if (fills_its_span(value.meta)) root_holder_[value.storage] = id;
  }

  /// Whether `output` may take over the memory of an input, which no other input shares.
  bool may_reuse(const Node& node, int32_t position, size_t input, ValueId output) const {
    const ValueId target = node.inputs[input];
    const StorageId storage = root(target);
    if (!storage.valid() || root_holder_[storage] != target || last_use_[storage] != position ||
        !(graph_.value(target).meta == graph_.value(output).meta)) {
      return false;
    }
    // An update belongs in the memory of the old value, where nothing else may stay.
    if (update_of_[storage] != kNoValue && is_output_[output] && output != update_of_[storage]) {
      return false;
    }
    if (replaces_[output].valid() && replaces_[output] != storage) return false;
    return std::ranges::all_of(
        node.inputs, [&](ValueId other) { return other == target || root(other) != storage; });
  }

  bool may_write(const Node& node, int32_t position) const {
    const OpInfo& info = node.op.info();
    if (info.traits.mutates || info.inplace_name.empty() || node.tokens != 0 ||
        node.outputs.size() != 1 || node.outputs[0] == kNoValue || node.args.empty() ||
        !node.args[0].is<attr::Input>()) {
      return false;
    }
    return !rounds_in_place(node, graph_.value(node.inputs[0]).meta.dtype) &&
           may_reuse(node, position, 0, node.outputs[0]);
  }

  void visit_generated(const Node& node, int32_t position) {
    for (const MemoryReuse& reuse : memory_reuses(node)) {
      const ValueId output = node.outputs[reuse.output];
      const bool is_new = root_[StorageId(output)] == StorageId(output);
      if (is_new && may_reuse(node, position, reuse.input, output)) {
        take_over(node.inputs[reuse.input], output);
      }
    }
    for (const ValueId output : node.outputs) {
      if (root_[StorageId(output)] == StorageId(output)) note_memory(output);
    }
  }

  void take_over(ValueId input, ValueId output) {
    const StorageId storage = root(input);
    root_[StorageId(output)] = storage;
    root_holder_[storage] = output;
    last_use_[storage] = last_use_[StorageId(output)];
    changed_ = true;
  }

  Graph& graph_;
  bool changed_ = false;
  IdMap<StorageId, StorageId> root_;    // the storage that it became part of
  IdMap<StorageId, int32_t> last_use_;  // views and in-place results included
  /// The newest value that fills a storage created in this graph. Only this value may be
  /// overwritten.
  IdMap<StorageId, ValueId> root_holder_;
  IdMap<ValueId, bool> is_output_;       // of the graph
  IdMap<StorageId, ValueId> update_of_;  // of an input that gets a new value: that value
  IdMap<ValueId, StorageId> replaces_;   // of a new value: the storage of the old one
};

}  // namespace

Graph reinplace(Graph graph, const std::vector<ValueId>& donated) {
  Reinplacer(graph, donated).run();
  return graph;
}

Graph reinplace(Graph graph) { return reinplace(std::move(graph), {}); }

std::vector<ValueId> updated_primals(const Graph& forward) {
  std::vector<ValueId> primals;
  for (const Output& output : forward.outputs) {
    if (output.kind != OutputKind::mutated_input || !output.update) continue;
    primals.push_back(forward.inputs[output.index].value);
  }
  return primals;
}

}  // namespace antegrad
