#include "partition/dependence.h"

#include <algorithm>

namespace antegrad {

std::vector<bool> bound_to_backward(const Graph& joint, std::vector<bool>* values) {
  std::vector<bool> own;
  std::vector<bool>& depends = values ? *values : own;
  depends.assign(joint.values.size(), false);
  std::vector<bool> bound(joint.nodes.size(), false);
  const auto is_token = [&](ValueId id) { return joint.value(id).kind == ValueKind::token; };
  for (const Input& input : joint.inputs) {
    if (input.kind == InputKind::tangent) depends[static_cast<size_t>(input.value)] = true;
  }
  for (size_t i = 0; i < joint.nodes.size(); ++i) {
    const Node& node = joint.nodes[i];
    const OpTraits& traits = node.op.traits();
    const bool stays =
        node.phase == Phase::backward && (node.tokens > 0 || traits.collective || traits.mutates);
    bound[i] = stays || std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId id) {
                 return !is_token(id) && depends[static_cast<size_t>(id)];
               });
    if (!bound[i]) continue;
    for (const ValueId id : node.outputs) {
      if (id != kNoValue && !is_token(id)) depends[static_cast<size_t>(id)] = true;
    }
  }
  return bound;
}

std::vector<int32_t> generators_of_tokens(const Graph& joint) {
  std::vector<int32_t> generator_of(joint.values.size(), -1);
  for (const Input& input : joint.inputs) {
    if (input.kind == InputKind::generator_token) {
      generator_of[static_cast<size_t>(input.value)] = input.index;
    }
  }
  for (const Node& node : joint.nodes) {
    auto output = node.outputs.end() - node.tokens;
    for (auto token = node.inputs.end() - node.tokens; token != node.inputs.end(); ++token) {
      generator_of[static_cast<size_t>(*output++)] = generator_of[static_cast<size_t>(*token)];
    }
  }
  return generator_of;
}

}  // namespace antegrad
