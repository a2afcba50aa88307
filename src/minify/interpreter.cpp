#include "minify/interpreter.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <antegrad/error.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <fmt/format.h>

#include <utility>

#include "graph/text.h"
#include "ops/answer.h"
#include "ops/number.h"
#include "ops/op_table.h"
#include "runtime/generator_states.h"
#include "runtime/twin_call.h"
#include "torch_compat/generator_state.h"
#include "torch_compat/tensor_metadata.h"

namespace antegrad::minify {
namespace {

class Interpreter {
 public:
  Interpreter(const Graph& graph, const ops::AttrTables& tables, const Returned& returned)
      : graph_(graph),
        tables_(tables),
        returned_(returned),
        values_(graph.values.size()),
        saved_state_of_(graph.values.size(), -1),
        starts_from_(graph.values.size(), -1) {
    for (const auto& output : graph.outputs) {
      if (output.kind == OutputKind::saved && is_token(output.value)) {
        saved_state_of_[output.value] = output.index;
      }
    }
    for (const auto& input : graph.inputs) {
      if (input.kind == InputKind::saved && is_token(input.value)) {
        starts_from_[input.value] = input.index;
      }
    }
  }

  std::vector<at::Tensor> run(const std::vector<at::Tensor>& inputs) {
    for (size_t i = 0; i < inputs.size(); ++i) values_[graph_.inputs[i].value] = inputs[i];
    for (const auto& node : graph_.nodes) call(node);
    std::vector<at::Tensor> outputs;
    for (const auto& output : graph_.outputs) {
      outputs.push_back(output.value == kNoValue ? at::Tensor() : values_[output.value]);
    }
    return outputs;
  }

 private:
  bool is_token(ValueId id) const { return graph_.value(id).kind == ValueKind::token; }

  c10::IValue argument(const Attr& attr, ops::ArgKind kind, bool optional, const Node& node,
                       size_t& next) const {
    const auto take = [&] { return values_[node.inputs[next++]]; };
    const auto list = [&]<class Element>(c10::List<Element> tensors) {
      for (const bool present : attr.as<attr::InputList>().present) {
        tensors.push_back(present ? Element(take()) : Element());
      }
      return c10::IValue(std::move(tensors));
    };
    if (attr.is<attr::Input>()) {
      auto tensor = take();
      if (kind != ops::ArgKind::scalar && kind != ops::ArgKind::integer) return tensor;
      return ops::to_scalar(ops::read_number(tensor));
    }
    if (attr.is<attr::InputList>()) {
      return kind == ops::ArgKind::optional_tensors ? list(c10::List<std::optional<at::Tensor>>())
                                                    : list(c10::List<at::Tensor>());
    }
    if (attr.is<attr::None>() && kind == ops::ArgKind::tensor && !optional) return at::Tensor();
    return ops::to_ivalue(attr, tables_);
  }

  // A repeated draw starts from the state that the forward saved, and leaves the generator alone.
  void call_kernel(const Node& node, const ops::OpEntry& entry, torch::jit::Stack& stack) {
    at::Generator repeats;
    for (const auto token : node.token_inputs()) {
      if (saved_state_of_[token] >= 0) {
        values_[token] = torch_compat::state_of(generator(saved_state_of_[token]));
      }
      if (starts_from_[token] >= 0) repeats = generator(starts_from_[token]);
      if (!repeats.defined()) continue;
      const auto before = torch_compat::state_of(repeats);
      torch_compat::set_state(repeats, values_[token]);
      entry.handle.callBoxed(stack);
      torch_compat::set_state(repeats, before);
      return;
    }
    if (entry.is_twin) {
      runtime::call_twin(entry, stack);
    } else {
      entry.handle.callBoxed(stack);
    }
  }

  at::Generator generator(int32_t index) const {
    return runtime::generator_of(graph_, tables_, index);
  }

  void call(const Node& node) {
    const auto& entry = ops::entry_of(node.op);
    if (entry.args.size() != node.args.size()) {
      throw GraphError(
          ErrorText{fmt::format("{} arguments for {}", entry.args.size(), node.op.name()),
                    fmt::format("{}", node.args.size()), ""});
    }
    torch::jit::Stack stack;
    size_t next = 0;
    for (size_t i = 0; i < node.args.size(); ++i) {
      stack.push_back(argument(node.args[i], entry.args[i], entry.optional[i], node, next));
    }
    try {
      // As in the forward and in autograd's backward: some kernels look at it.
      const at::AutoGradMode grad_mode(node.phase == Phase::forward);
      call_kernel(node, entry, stack);
    } catch (const ops::UnexpectedAnswer& other) {
      throw InputError(
          ErrorText{"data for which " + node.op.name() + " gives what the graph assumes",
                    ops::to_text(other.found), ""});
    }
    store(node, stack);
  }

  void store(const Node& node, const torch::jit::Stack& stack) {
    const auto results = node.results();
    size_t next = 0;
    const auto keep = [&](const at::Tensor& tensor) {
      AG_CHECK(next < results.size(), "no more tensors than the graph has");
      const auto id = results[next++];
      if (id == kNoValue) return;
      values_[id] = tensor;
      if (tensor.defined()) returned_(node, id, tensor);
    };
    for (const auto& value : stack) {
      if (value.isTensorList()) {
        for (const auto& tensor : value.toTensorVector()) keep(tensor);
      } else {
        keep(value.isTensor() ? value.toTensor() : at::Tensor());
      }
    }
  }

  const Graph& graph_;
  const ops::AttrTables& tables_;
  const Returned& returned_;
  IdMap<ValueId, at::Tensor> values_;
  // By token: the generator whose state the forward saves there, or from whose state a draw of the
  // backward starts; -1 for others.
  IdMap<ValueId, int32_t> saved_state_of_, starts_from_;
};

}  // namespace

Returned require_metadata(const Graph& graph) {
  return [&graph](const Node& node, ValueId value, const at::Tensor& tensor) {
    if (!graph.is_tensor(value)) return;
    const auto difference = torch_compat::TensorMetadata::of(graph.value(value).meta)
                                .difference(tensor, torch_compat::Match::layout);
    if (difference.empty()) return;
    throw MismatchError(ErrorText{"the tensor that the graph says",
                                  difference + " from " + node_text(graph, node), ""});
  };
}

std::vector<at::Tensor> interpret(const Graph& graph, const ops::AttrTables& tables,
                                  const std::vector<at::Tensor>& inputs, const Returned& returned) {
  AG_CHECK(inputs.size() == graph.inputs.size(), "a tensor for each input");
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  return Interpreter(graph, tables, returned).run(inputs);
}

}  // namespace antegrad::minify
