#include "partition/dependence.h"

#include <algorithm>

namespace antegrad {

namespace {

std::vector<bool> needed_for_results(const Graph& joint) {
  std::vector<bool> needed(joint.values.size(), false);
  for (const Output& output : joint.outputs) {
    if (of_forward(output.kind) && output.value != kNoValue) {
      needed[static_cast<size_t>(output.value)] = true;
    }
  }
  std::vector<bool> nodes(joint.nodes.size(), false);
  for (size_t i = joint.nodes.size(); i-- > 0;) {
    const std::vector<ValueId>& outputs = joint.nodes[i].outputs;
    nodes[i] = std::any_of(outputs.begin(), outputs.end(), [&](ValueId id) {
      return id != kNoValue && needed[static_cast<size_t>(id)];
    });
    if (!nodes[i]) continue;
    for (const ValueId id : joint.nodes[i].inputs) needed[static_cast<size_t>(id)] = true;
  }
  return nodes;
}

}  // namespace

std::vector<bool> bound_to_backward(const Graph& joint, std::vector<bool>* values) {
  std::vector<bool> own;
  std::vector<bool>& depends = values ? *values : own;
  depends.assign(joint.values.size(), false);
  std::vector<bool> bound(joint.nodes.size(), false);
  const auto is_token = [&](ValueId id) { return joint.value(id).kind == ValueKind::token; };
  for (const Input& input : joint.inputs) {
    if (input.kind == InputKind::tangent) depends[static_cast<size_t>(input.value)] = true;
  }
  const std::vector<bool> for_results = needed_for_results(joint);
  for (size_t i = 0; i < joint.nodes.size(); ++i) {
    const Node& node = joint.nodes[i];
    const bool stays = node.phase == Phase::backward && !node.op.traits().view && !for_results[i];
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
