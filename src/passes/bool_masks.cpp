#include "passes/bool_masks.h"

#include <utility>
#include <vector>

#include "graph/analysis.h"

namespace antegrad {
namespace {

class BoolMasks {
 public:
  explicit BoolMasks(Graph& graph)
      : graph_(graph), producer_(producers(graph)), uses_(graph.values.size(), 0) {
    for (const Node& node : graph.nodes) {
      for (const ValueId id : node.inputs) ++uses_[id];
    }
    for (const Output& output : graph.outputs) {
      if (output.value != kNoValue) ++uses_[output.value];
    }
  }

  void run() {
    std::vector<bool> dead(graph_.nodes.size(), false);
    std::vector<Node> converting(graph_.nodes.size());
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (!is_mask(graph_.nodes[i])) continue;
      const int32_t memory = producer_[graph_.nodes[i].inputs[0]];
      converting[i] = divide(graph_.nodes[i], graph_.nodes[memory].id);
      dead[memory] = true;
    }
    std::vector<Node> nodes;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (dead[i]) continue;
      nodes.push_back(std::move(graph_.nodes[i]));
      if (!converting[i].outputs.empty()) nodes.push_back(std::move(converting[i]));
    }
    graph_.nodes = std::move(nodes);
  }

 private:
  /// Whether the node draws numbers into memory that was made for them.
  bool is_mask(const Node& node) const {
    if (node.op.name() != "aten::bernoulli.p" || node.tokens != 1 || node.args.size() != 3 ||
        !node.args[1].is<double>() || !graph_.is_tensor(node.outputs[0])) {
      return false;
    }
    const ValueId memory = node.inputs[0];
    const int32_t maker = producer_[memory];
    if (maker < 0 || uses_[memory] != 1) return false;
    const Node& made = graph_.nodes[maker];
    if (!made.op.traits().uninitialized() || made.outputs.size() != 1 || made.phase != node.phase)
      return false;
    const TensorMeta& meta = graph_.value(node.outputs[0]).meta;
    return meta.device.kind == DeviceKind::cpu && is_floating(meta.dtype) && is_contiguous(meta) &&
           graph_.owns_storage(node.outputs[0]) && graph_.owns_storage(memory);
  }

  /// Turns the node into a draw of bools and returns the node, of this id, that makes numbers of
  /// them. The bools take the value of the memory: forwards that are captured with different
  /// backwards keep equal values.
  Node divide(Node& node, int32_t id) {
    const ValueId numbers = node.outputs[0], bools = node.inputs[0];
    TensorMeta meta = graph_.value(numbers).meta;
    const DType type = std::exchange(meta.dtype, DType::boolean);

    Node convert = node;
    convert.op = Op::intern("aten::_to_copy.default");
    convert.args = {attr::Input{}, type,  attr::None{}, attr::None{},
                    attr::None{},  false, attr::None{}};
    convert.inputs = {bools};
    convert.outputs = {numbers};
    convert.tokens = 0;
    convert.id = id;

    node.op = Op::intern("antegrad::draw_bools.default");
    node.args = {meta.sizes, node.args[1], type, node.args[2]};
    node.inputs.erase(node.inputs.begin());
    node.outputs[0] = bools;
    graph_.value(bools).meta = std::move(meta);
    return convert;
  }

  Graph& graph_;
  IdMap<ValueId, int32_t> producer_;
  IdMap<ValueId, int32_t> uses_;
};

}  // namespace

Graph bool_masks(Graph graph) {
  BoolMasks(graph).run();
  return graph;
}

}  // namespace antegrad
