#include "torch_compat/autograd_graph.h"
#include "torch_compat/tensor_state.h"

#include <ATen/SequenceNumber.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/as_strided.h>
#include <torch/csrc/autograd/cpp_hook.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <string_view>
#include <typeinfo>
#include <unordered_set>

#include "torch_compat/autograd_node.h"

namespace antegrad::torch_compat {

using torch::autograd::Edge;
using torch::autograd::Node;

namespace {

// Stands for the history of a tensor outside of a capture. Gradients are taken from its input.
class InputNode final : public Node {
 public:
  torch::autograd::variable_list apply(torch::autograd::variable_list&& /*gradients*/) override {
    return {};
  }
  std::string name() const override { return "AntegradInput"; }
};

}  // namespace

Edge gradient_edge(const at::Tensor& tensor) {
  return torch::autograd::impl::gradient_edge(tensor);
}

Edge make_non_leaf(const at::Tensor& tensor) {
  const auto [owner, node] = make_node<InputNode>();
  const auto input = node->add_input_metadata(tensor);
  torch::autograd::impl::set_gradient_edge(tensor, Edge(owner, input));
  return Edge(owner, input);
}

std::vector<at::Tensor> run_backward(const std::vector<Edge>& roots,
                                     const std::vector<at::Tensor>& tangents,
                                     const std::vector<Edge>& targets) {
  return torch::autograd::Engine::get_default_engine().execute(
      roots, tangents, /*keep_graph=*/false, /*create_graph=*/false, /*accumulate_grad=*/false,
      targets);
}

Reached walk(const std::vector<at::Tensor>& tensors) {
  Reached reached;
  std::unordered_set<const Node*> seen;
  std::vector<Node*> open;
  const auto visit = [&](Node* node) {
    if (node != nullptr && seen.insert(node).second) open.push_back(node);
  };
  for (const auto& tensor : tensors) {
    // The history of a view that was made with grad mode off must not be asked for.
    if (!tensor.defined() || !has_history(tensor)) continue;
    if (const auto& fn = tensor.grad_fn()) visit(fn.get());
  }
  while (!open.empty()) {
    auto* node = open.back();
    open.pop_back();
    if (auto* leaf = dynamic_cast<torch::autograd::AccumulateGrad*>(node)) {
      reached.leaves.push_back(leaf->variable);
    } else {
      reached.functions.push_back(node);
    }
    for (const auto& edge : node->next_edges()) visit(edge.function.get());
  }
  return reached;
}

bool is_observed(Node& node, uint32_t input, const torch::autograd::FunctionPreHook* ours) {
  if (node.retains_grad_hooks().contains(static_cast<int>(input))) return true;
  for (const auto& hook : node.tensor_pre_hooks()) {
    if (hook.get() == ours) continue;
    // libtorch does not export the type's information, so that dynamic_cast is no way to know it.
    const auto& known = *hook;
    if (std::string_view(typeid(known).name()).find("CppFunctionTensorPreHook") ==
        std::string_view::npos) {
      return true;
    }
    const auto& of_tensor = static_cast<const torch::autograd::CppFunctionTensorPreHook&>(known);
    if (of_tensor.value_idx_ == input) return true;
  }
  const auto* execution = torch::autograd::get_current_graph_task_exec_info();
  if (execution == nullptr) return false;
  const auto it = execution->find(&node);
  if (it == execution->end() || !it->second.captures_) return false;
  return std::any_of(
      it->second.captures_->begin(), it->second.captures_->end(),
      [&](const auto& capture) { return static_cast<uint32_t>(capture.input_idx_) == input; });
}

Node* function_of(const at::Tensor& tensor) {
  const auto* meta = torch::autograd::impl::get_autograd_meta(tensor);
  return meta == nullptr ? nullptr : meta->grad_fn_.get();
}

std::vector<Node*> history_of(const at::Tensor& tensor) {
  auto reached = walk({tensor});
  std::erase(reached.functions, function_of(tensor));
  return reached.functions;
}

uint64_t next_sequence_number() { return at::sequence_number::peek(); }

bool made_before(const Node& node, uint64_t sequence_number) {
  return node.sequence_nr() < sequence_number;
}

at::Tensor base_or_self(const at::Tensor& tensor) {
  return tensor.is_view() ? at::Tensor(tensor._base()) : tensor;
}

at::Tensor span_of(const at::Tensor& tensor, int64_t count, int64_t offset) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  auto span = at::as_strided(tensor, {count}, {1}, offset);
  if (!tensor.is_inference()) share_version_counter(tensor, span);
  return span;
}

void copy_creation(const at::Tensor& from, const at::Tensor& to) {
  const auto* source = torch::autograd::impl::get_view_autograd_meta(from);
  auto* target = torch::autograd::impl::get_view_autograd_meta(to);
  if (source == nullptr || target == nullptr || !source->has_bw_view() || !target->has_bw_view()) {
    return;
  }
  target->set_creation_meta(source->get_creation_meta());
}

namespace {

bool was_made(const at::Tensor& view, torch::autograd::CreationMeta how) {
  const auto* meta = torch::autograd::impl::get_view_autograd_meta(view);
  return meta != nullptr && meta->has_bw_view() && meta->get_creation_meta() == how;
}

}  // namespace

void make_view_of(const at::Tensor& target, const at::Tensor& alias, MadeBy made_by) {
  using torch::autograd::CreationMeta;
  torch::autograd::make_variable_differentiable_view(
      alias, torch::autograd::ViewInfo(base_or_self(target), nullptr, nullptr), std::nullopt,
      /*shared_view_info=*/true,
      made_by == MadeBy::function ? CreationMeta::IN_CUSTOM_FUNCTION : CreationMeta::NO_GRAD_MODE);
}

bool made_without_grad(const at::Tensor& view) {
  return was_made(view, torch::autograd::CreationMeta::NO_GRAD_MODE);
}

bool has_history(const at::Tensor& tensor) {
  const auto* meta = torch::autograd::impl::get_autograd_meta(tensor);
  return meta != nullptr && meta->grad_fn_ != nullptr;
}

bool made_in_custom_function(const at::Tensor& view) {
  return was_made(view, torch::autograd::CreationMeta::IN_CUSTOM_FUNCTION);
}

}  // namespace antegrad::torch_compat
