#include "passes/no_ops.h"

#include <algorithm>
#include <unordered_map>

#include "graph/analysis.h"
#include "graph/hash_bits.h"
#include "passes/replace_values.h"

namespace antegrad {
namespace {

/// Of what mostly tells views of a storage apart.
uint64_t hash_of(const TensorMeta& meta, StorageId storage) {
  const auto hash = mix_bits(static_cast<uint64_t>(storage.number()), meta.sizes.size());
  return mix_bits(hash, hash_value(meta.offset));
}

class NoOps {
 public:
  explicit NoOps(Graph& graph)
      : graph_(graph),
        replacer_(graph),
        dead_(graph.nodes.size(), false),
        producer_(producers(graph)),
        reinterpreted_(graph.values.size(), false),
        written_(graph.values.size(), false),
        primal_(graph.values.size(), false),
        read_by_backward_(graph.values.size(), false),
        shown_again_(graph.values.size(), false) {}

  void run() {
    for (const Node& node : graph_.nodes) {
      if (node.op.traits().mutates && !node.inputs.empty()) {
        mark_storage(graph_, node.inputs[0], written_);
      }
      if (is_candidate(node)) {
        for (const ValueId id : {node.inputs[0], node.outputs[0]}) {
          mark_storage(graph_, id, shown_again_);
        }
      }
      if (node.phase == Phase::forward) continue;
      for (const ValueId id : node.inputs) mark_storage(graph_, id, read_by_backward_);
    }
    for (const Input& input : graph_.inputs) {
      if (input.kind == InputKind::primal) primal_[StorageId(input.value)] = true;
      remember(input.value);
    }
    for (size_t i = 0; i < graph_.nodes.size(); ++i) visit(i);
    replacer_.finish(dead_);
  }

 private:
  static bool is_candidate(const Node& node) {
    return node.op.traits().no_op_when_same_meta && node.tokens == 0 && node.outputs.size() == 1 &&
           node.outputs[0] != kNoValue && !node.args.empty() && node.args[0].is<attr::Input>();
  }

  void visit(size_t i) {
    Node& node = graph_.nodes[i];
    replacer_.update_inputs(node);
    const OpTraits& traits = node.op.traits();
    const bool candidate = is_candidate(node);
    if (traits.view && !node.inputs.empty()) {
      const bool changes_reading = !traits.no_op_when_same_meta || reinterpreted_[node.inputs[0]];
      for (const ValueId output : node.outputs) {
        if (output != kNoValue) reinterpreted_[output] = changes_reading;
      }
    }
    if (candidate && (traits.view ? drop_view(node) : drop_copy(node))) {
      dead_[i] = true;
      return;
    }
    if (candidate) skip_middle_view(node);
    for (const ValueId output : node.outputs) remember(output);
  }

  // --- views ------------------------------------------------------------------------------------

  /// Records a value, so that later views that show the same elements can be replaced by it.
  void remember(ValueId id) {
    if (!graph_.is_tensor(id) || reinterpreted_[id]) return;
    if (!shown_again_[graph_.value(id).storage]) return;
    shown_.emplace(hash_of(graph_.value(id).meta, replacer_.storage(id)), id);
  }

  ValueId shown_before(ValueId id, Phase phase) const {
    const Value& value = graph_.value(id);
    const StorageId storage = replacer_.storage(id);
    const auto [first, last] = shown_.equal_range(hash_of(value.meta, storage));
    for (auto entry = first; entry != last; ++entry) {
      const ValueId other = entry->second;
      if (replacer_.storage(other) == storage && graph_.value(other).meta == value.meta &&
          (phase == Phase::backward || !of_backward(other))) {
        return other;
      }
    }
    return kNoValue;
  }

  bool of_backward(ValueId id) const {
    const int32_t node = producer_[id];
    return node >= 0 && graph_.nodes[node].phase == Phase::backward;
  }

  bool drop_view(const Node& node) {
    const ValueId output = node.outputs[0];
    // A graph output that is a view has a record that names its base, so it stays a view.
    if (reinterpreted_[output] || replacer_.is_output(output)) return false;
    if (is_written(output)) return false;
    const ValueId earlier = shown_before(output, node.phase);
    if (earlier == kNoValue) return false;
    replacer_.replace(output, earlier);
    return true;
  }

  /// Rewrites view(view(x, a), b) to view(x, b) if the middle and the last value are contiguous,
  /// since x is then contiguous too.
  void skip_middle_view(Node& node) {
    if (!is_plain_reshape(node)) return;
    const int32_t middle = producer_[node.inputs[0]];
    if (middle < 0) return;
    const Node& inner = graph_.nodes[middle];
    if (!is_plain_reshape(inner)) return;
    const auto in_one_piece = [this](ValueId id) { return is_contiguous(graph_.value(id).meta); };
    if (in_one_piece(node.inputs[0]) && in_one_piece(node.outputs[0])) {
      node.inputs[0] = inner.inputs[0];
    }
  }

  static bool is_plain_reshape(const Node& node) {
    return node.op.traits().reshape && node.inputs.size() == 1 && node.args.size() == 2 &&
           node.args[1].is<Shape>();
  }

  // --- copies -----------------------------------------------------------------------------------

  bool drop_copy(const Node& node) {
    const ValueId input = node.inputs[0];
    const ValueId output = node.outputs[0];
    const auto asks_for_more = [](const Attr& arg) { return arg.is<bool>() && arg.as<bool>(); };
    if (graph_.value(input).kind != ValueKind::tensor || reinterpreted_[input] ||
        graph_.value(input).meta != graph_.value(output).meta || is_written(input) ||
        is_written(output) || replacer_.held_by_output(replacer_.storage(output)) ||
        keeps_a_copy(node) || std::ranges::any_of(node.args, asks_for_more)) {
      return false;
    }
    const TensorMeta& base = graph_.value(ValueId(replacer_.storage(input))).meta;
    if (span_bytes(base) != span_bytes(graph_.value(input).meta)) return false;
    replacer_.replace(output, input);
    return true;
  }

  /// Whether a copy in the forward must stay: the caller can write to its source before the
  /// backward reads the copy.
  bool keeps_a_copy(const Node& node) const {
    const StorageId storage = replacer_.storage(node.inputs[0]);
    return node.phase == Phase::forward && read_by_backward_[StorageId(node.outputs[0])] &&
           (primal_[storage] || replacer_.held_by_output(storage));
  }

  bool is_written(ValueId id) const {
    const StorageId storage = graph_.value(id).storage;
    return storage.valid() && written_[storage];
  }

  Graph& graph_;
  ValueReplacer replacer_;
  std::vector<bool> dead_;
  IdMap<ValueId, int32_t> producer_;
  IdMap<ValueId, bool> reinterpreted_;  // its metadata do not tell how to read it
  IdMap<StorageId, bool> written_;      // by an in-place node
  IdMap<StorageId, bool> primal_;
  IdMap<StorageId, bool> read_by_backward_;
  IdMap<StorageId, bool> shown_again_;  // by a view or a copy that may be dropped
  std::unordered_multimap<uint64_t, ValueId> shown_;
};

}  // namespace

Graph no_ops(Graph graph) {
  NoOps(graph).run();
  return graph;
}

}  // namespace antegrad
