#include "runtime/view_steps.h"

#include <ATen/core/stack.h>

#include <algorithm>

#include "torch_compat/convert.h"

namespace antegrad::runtime {
namespace {

const Node* producer_of(const Graph& graph, ValueId value) {
  for (const auto& node : graph.nodes) {
    if (std::find(node.outputs.begin(), node.outputs.end(), value) != node.outputs.end()) {
      return &node;
    }
  }
  return nullptr;
}

}  // namespace

bool ViewSteps::follow(const Graph& graph, const ops::AttrTables& tables, ValueId from,
                       ValueId to) {
  while (to != from) {
    const auto* node = producer_of(graph, to);
    if (node == nullptr || !node->op.traits().view || node->op.traits().mutates ||
        node->inputs.size() != 1 || node->args.empty() || !node->args[0].is<attr::Input>()) {
      return false;
    }
    Step step{&ops::entry_of(node->op), {}, 0, node->id};
    for (size_t i = 1; i < node->args.size(); ++i) {
      step.arguments.push_back(ops::to_ivalue(node->args[i], tables));
    }
    const auto output = std::find(node->outputs.begin(), node->outputs.end(), to);
    step.output = static_cast<size_t>(output - node->outputs.begin());
    steps_.push_back(std::move(step));
    to = node->inputs[0];
  }
  std::reverse(steps_.begin(), steps_.end());
  return true;
}

ViewSteps::ViewSteps(const Graph& graph, const ops::AttrTables& tables, ValueId from, ValueId to) {
  if (!follow(graph, tables, from, to)) {
    const auto& meta = graph.value(to).meta;
    steps_.clear();
    steps_.push_back({&ops::entry_of(Op::intern("aten::as_strided.default")),
                      {torch_compat::to_ints(meta.sizes), torch_compat::to_ints(meta.strides),
                       meta.offset.constant()},
                      0,
                      -1});
  } else if (steps_.empty()) {
    steps_.push_back({&ops::entry_of(Op::intern("aten::alias.default")), {}, 0, -1});
  }
}

at::Tensor ViewSteps::apply(at::Tensor tensor, Made& made) const {
  for (const auto& step : steps_) {
    const std::pair key(tensor.unsafeGetTensorImpl(), step.node);
    if (const auto it = made.find(key); it != made.end()) {
      tensor = it->second.at(step.output);
      continue;
    }
    torch::jit::Stack stack;
    stack.reserve(1 + step.arguments.size());
    stack.emplace_back(tensor);
    stack.insert(stack.end(), step.arguments.begin(), step.arguments.end());
    step.entry->handle.callBoxed(stack);
    if (stack[0].isTensorList()) {
      tensor = made.emplace(key, stack[0].toTensorVector()).first->second.at(step.output);
    } else {
      tensor = std::move(stack.at(step.output)).toTensor();
    }
  }
  return tensor;
}

}  // namespace antegrad::runtime
