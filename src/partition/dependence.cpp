#include "partition/dependence.h"

#include "graph/analysis.h"

namespace antegrad {

std::vector<bool> bound_to_backward(const Graph& joint, IdMap<ValueId, bool>* values) {
  IdMap<ValueId, bool> own;
  IdMap<ValueId, bool>& depends = values ? *values : own;
  depends.assign(joint.values.size(), false);
  for (const Input& input : joint.inputs) {
    if (input.kind == InputKind::tangent) depends[input.value] = true;
  }
  IdMap<ValueId, bool> needed = output_values(joint, of_forward);
  const std::vector<bool> for_results = needed_nodes(joint, needed);
  return dependent_nodes(joint, depends, [&](int32_t i) {
    const Node& node = joint.nodes[i];
    return node.phase == Phase::backward && !node.op.traits().view && !for_results[i];
  });
}

IdMap<ValueId, int32_t> generators_of_tokens(const Graph& joint) {
  IdMap<ValueId, int32_t> generator_of(joint.values.size(), -1);
  for (const Input& input : joint.inputs) {
    if (input.kind == InputKind::generator_token) generator_of[input.value] = input.index;
  }
  for (const Node& node : joint.nodes) {
    auto output = node.outputs.end() - node.tokens;
    for (const ValueId token : node.token_inputs()) generator_of[*output++] = generator_of[token];
  }
  return generator_of;
}

}  // namespace antegrad
