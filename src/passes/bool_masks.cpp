#include "passes/bool_masks.h"

#include <utility>
#include <vector>

namespace antegrad {
namespace {

bool is_mask(const Graph& graph, const Node& node) {
  if (node.op.name() != "aten::bernoulli.p" || node.tokens != 1 || node.args.size() != 3 ||
      !node.args[1].is<double>() || !graph.is_tensor(node.outputs[0])) {
    return false;
  }
  const TensorMeta& meta = graph.value(node.outputs[0]).meta;
  return meta.device.kind == DeviceKind::cpu && is_floating(meta.dtype) && is_contiguous(meta) &&
         graph.owns_storage(node.outputs[0]);
}

/// Turns the node into a draw of bools and returns the node that makes its result of them.
Node divide(Graph& graph, Node& node, int32_t next_id) {
  const ValueId numbers = node.outputs[0];
  TensorMeta meta = graph.value(numbers).meta;
  const DType type = std::exchange(meta.dtype, DType::boolean);
  Node draw = node;
  draw.op = Op::intern("antegrad::draw_bools.default");
  draw.args = {meta.sizes, node.args[1], type, node.args[2]};
  draw.inputs.assign(1, node.token_inputs()[0]);
  draw.outputs[0] = graph.add_tensor(std::move(meta));

  Node convert = node;
  convert.op = Op::intern("aten::_to_copy.default");
  convert.args = {attr::Input{}, type,  attr::None{}, attr::None{},
                  attr::None{},  false, attr::None{}};
  convert.inputs = {draw.outputs[0]};
  convert.outputs = {numbers};
  convert.tokens = 0;
  convert.id = next_id;
  node = std::move(draw);
  return convert;
}

}  // namespace

Graph bool_masks(Graph graph) {
  int32_t next_id = next_node_id(graph);
  std::vector<Node> nodes;
  nodes.reserve(graph.nodes.size());
  for (Node& node : std::exchange(graph.nodes, {})) {
    if (!is_mask(graph, node)) {
      nodes.push_back(std::move(node));
      continue;
    }
    Node convert = divide(graph, node, node.id < 0 ? -1 : next_id++);
    nodes.push_back(std::move(node));
    nodes.push_back(std::move(convert));
  }
  graph.nodes = std::move(nodes);
  return graph;
}

}  // namespace antegrad
