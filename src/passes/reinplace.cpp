#include "passes/reinplace.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "graph/analysis.h"

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
        root_holder_(graph.values.size(), kNoValue) {
    std::iota(root_.begin(), root_.end(), StorageId(0));
    for (const ValueId id : donated) note_memory(id);
  }

  void run() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      Node& node = graph_.nodes[i];
      if (may_write(node, static_cast<int32_t>(i))) {
        write(node);
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

  void note_memory(ValueId id) {
    if (!graph_.is_tensor(id) || !graph_.owns_storage(id)) return;
    const Value& value = graph_.value(id);
    if (fills_its_span(value.meta)) root_holder_[value.storage] = id;
  }

  bool may_write(const Node& node, int32_t position) const {
    const OpInfo& info = node.op.info();
    if (!info.traits.pointwise || info.traits.mutates || info.inplace_name.empty() ||
        node.tokens != 0 || node.outputs.size() != 1 || node.outputs[0] == kNoValue ||
        node.args.empty() || !node.args[0].is<attr::Input>()) {
      return false;
    }
    const ValueId target = node.inputs[0];
    if (rounds_in_place(node, graph_.value(target).meta.dtype)) return false;
    const StorageId storage = root(target);
    return storage.valid() && root_holder_[storage] == target && last_use_[storage] == position &&
           graph_.value(target).meta == graph_.value(node.outputs[0]).meta &&
           std::all_of(node.inputs.begin() + 1, node.inputs.end(),
                       [&](ValueId other) { return other == target || root(other) != storage; });
  }

  void write(Node& node) {
    const ValueId output = node.outputs[0];
    const StorageId storage = root(node.inputs[0]);
    node.op = Op::intern(node.op.info().inplace_name);
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
};

}  // namespace

Graph reinplace(Graph graph, const std::vector<ValueId>& donated) {
  Reinplacer(graph, donated).run();
  return graph;
}

Graph reinplace(Graph graph) { return reinplace(std::move(graph), {}); }

}  // namespace antegrad
