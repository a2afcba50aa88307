#include "runtime/view_steps.h"

#include <ATen/core/stack.h>
#include <antegrad/error.h>

#include <algorithm>

#include "graph/analysis.h"
#include "graph/lazy_bits.h"
#include "torch_compat/convert.h"

namespace antegrad::runtime {
namespace {

bool makes_several(const ops::OpEntry& entry) {
  const auto& returns = entry.handle.schema().returns();
  return returns.size() == 1 && returns[0].type()->kind() == c10::TypeKind::ListType;
}

}  // namespace

ViewSteps::ViewSteps(const Graph& graph, const ops::AttrTables& tables, ValueId from, ValueId to) {
  // From the end to the start, as long as there are views.
  std::vector<ValueId> shown{to};  // the value after each step
  const auto made_by = producers(graph);
  while (shown.back() != from && made_by[shown.back()] >= 0) {
    const auto& node = graph.nodes[made_by[shown.back()]];
    if (!node.op.traits().view || node.op.traits().mutates || node.inputs.size() != 1 ||
        node.args.empty() || !node.args[0].is<attr::Input>()) {
      break;
    }
    steps_.push_back(step_of(node, shown.back(), tables));
    shown.push_back(node.inputs[0]);
  }
  if (shown.back() != from) {
    // Passes have removed part of the chain. A value of the same dtype can be shown by sizes,
    // strides and offset.
    const auto dtype = graph.value(from).meta.dtype;
    const auto same = std::find_if(shown.begin(), shown.end(), [&](ValueId value) {
      return graph.value(value).meta.dtype == dtype;
    });
    AG_CHECK(same != shown.end(), "a result shows memory by another dtype, by unknown steps");
    const auto& meta = graph.value(*same).meta;
    steps_.resize(same - shown.begin());
    steps_.push_back({&ops::entry_of(Op::intern("aten::as_strided.default")),
                      {torch_compat::to_ints(meta.sizes), torch_compat::to_ints(meta.strides),
                       meta.offset.constant()},
                      0,
                      -1});
    const auto bits = lazy_bits(graph, from), wanted = lazy_bits(graph, *same);
    const auto toggle = [&](bool differ, const char* op) {
      if (!differ) return;
      steps_.push_back({&ops::entry_of(Op::intern(op)), {}, 0, -1});
      std::swap(steps_.back(), *(steps_.end() - 2));  // steps are stored in reverse
    };
    toggle(bits.conj != wanted.conj, "aten::_conj.default");
    toggle(bits.neg != wanted.neg, "aten::_neg_view.default");
  }
  std::reverse(steps_.begin(), steps_.end());
  // Passes may insert a detach() of the same memory into a chain of views. The result must have the
  // history of its target.
  const auto detaches = [](const Step& step) { return step.entry->op.traits().detaches; };
  const bool is_detached = !steps_.empty() && detaches(steps_.back());
  std::erase_if(steps_, detaches);
  // The result is a tensor of its own, even if it shows the same elements.
  if (steps_.empty() || (is_detached && makes_several(*steps_.back().entry))) {
    steps_.push_back({&ops::entry_of(Op::intern("aten::alias.default")), {}, 0, -1});
  }
}

ViewSteps::Step ViewSteps::step_of(const Node& node, ValueId value, const ops::AttrTables& tables) {
  Step step{&ops::entry_of(node.op), {}, 0, node.id};
  for (size_t i = 1; i < node.args.size(); ++i) {
    step.arguments.push_back(ops::to_ivalue(node.args[i], tables));
  }
  const auto output = std::find(node.outputs.begin(), node.outputs.end(), value);
  step.output = output - node.outputs.begin();
  return step;
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
