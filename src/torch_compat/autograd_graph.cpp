#include "torch_compat/autograd_graph.h"
#include "torch_compat/tensor_state.h"

#include <ATen/SequenceNumber.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/alias.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/zeros.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/VariableTypeUtils.h>
#include <torch/csrc/autograd/cpp_hook.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <string_view>
#include <typeinfo>
#include <unordered_set>

#include "torch_compat/keys.h"
#include "torch_compat/storage_state.h"

namespace antegrad::torch_compat {

using torch::autograd::Edge;
using torch::autograd::Node;

namespace {

// Represents the history of a tensor outside of a capture. Gradients are taken from its input.
class InputNode final : public Node {
 public:
  torch::autograd::variable_list apply(torch::autograd::variable_list&& /*gradients*/) override {
    return {};
  }
  std::string name() const override { return "AntegradInput"; }
};

// These nodes and all nodes that their edges lead to, each once.
std::vector<Node*> nodes_from(const std::vector<Node*>& starts) {
  std::vector<Node*> nodes;
  std::unordered_set<const Node*> seen;
  const auto visit = [&](Node* node) {
    if (node != nullptr && seen.insert(node).second) nodes.push_back(node);
  };
  for (auto* start : starts) visit(start);
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (const auto& edge : nodes[i]->next_edges()) visit(edge.function.get());
  }
  return nodes;
}

// A failed pass leaves its remaining tasks, with their tensors, in the queue of this thread; the
// next pass discards them.
void empty_queue() {
  const at::AutoGradMode grad_mode(true);
  auto keys = c10::impl::tls_local_dispatch_key_set();
  keys.included_ = keys.included_ - capture_keys;
  const c10::impl::ForceDispatchKeyGuard outside_capture(keys);
  const auto leaf = at::zeros({}).set_requires_grad(true);
  torch::autograd::Engine::get_default_engine().execute(
      {gradient_edge(leaf.alias())}, {at::zeros({})}, false, false, false, {gradient_edge(leaf)});
}

std::vector<Node*> nodes_from(const std::vector<at::Tensor>& tensors) {
  std::vector<Node*> starts;
  for (const auto& tensor : tensors) {
    // The history of a view made with grad mode off must not be accessed.
    if (!tensor.defined() || !has_history(tensor)) continue;
    if (const auto& fn = tensor.grad_fn()) starts.push_back(fn.get());
  }
  return nodes_from(starts);
}

// AccumulateGrad holds the mutex of its node, a protected member, while it works.
struct NodeMutex : Node {
  static constexpr std::mutex Node::*member = &NodeMutex::mutex_;
};

// libtorch does not export its own class, whose offset is wrong for a gradient of the base, which
// starts at 0.
struct AsStridedView final : torch::autograd::ViewFunc {
  AsStridedView(const at::Tensor& base, const at::Tensor& view)
      : sizes(view.sizes().vec()),
        strides(view.strides().vec()),
        offset_in_base(view.storage_offset() - base.storage_offset()) {}
  at::Tensor operator()(const at::Tensor& base) const override {
    return at::as_strided(base, sizes, strides, base.storage_offset() + offset_in_base);
  }
  std::unique_ptr<ViewFunc> clone_and_set(
      std::optional<std::vector<c10::SymInt>> /*symints*/ = std::nullopt,
      std::optional<std::vector<at::Tensor>> /*tensors*/ = std::nullopt) const override {
    return std::make_unique<AsStridedView>(*this);
  }
  std::vector<int64_t> sizes, strides;
  int64_t offset_in_base;
};

bool was_made(const at::Tensor& view, torch::autograd::CreationMeta how) {
  const auto* meta = torch::autograd::impl::get_view_autograd_meta(view);
  return meta != nullptr && meta->has_bw_view() && meta->get_creation_meta() == how;
}

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

WeakNode weak_function_of(const at::Tensor& tensor) {
  const auto base = base_or_self(tensor);
  return has_history(base) ? WeakNode(base.grad_fn()) : WeakNode(NodePtr());
}

void release_saved(const WeakNode& node) {
  const NodePtr alive = node.lock();
  if (!alive) return;
  for (auto* reached : nodes_from({alive.get()})) reached->release_variables();
}

std::vector<at::Tensor> run_backward(const std::vector<Edge>& roots,
                                     const std::vector<at::Tensor>& tangents,
                                     const std::vector<Edge>& targets, const PassOptions& options) {
  try {
    return torch::autograd::Engine::get_default_engine().execute(
        roots, tangents, options.keep_graph, options.create_graph, /*accumulate_grad=*/false,
        targets);
  } catch (...) {
    empty_queue();
    throw;
  }
}

void when_backward_ends(std::function<void()> function) {
  torch::autograd::Engine::get_default_engine().queue_callback(std::move(function));
}

std::unordered_set<const Node*> functions_from(const std::vector<at::Tensor>& tensors) {
  const auto nodes = nodes_from(tensors);
  return {nodes.begin(), nodes.end()};
}

Reached walk(const std::vector<at::Tensor>& tensors) {
  Reached reached;
  for (auto* node : nodes_from(tensors)) {
    if (auto* leaf = dynamic_cast<torch::autograd::AccumulateGrad*>(node)) {
      reached.leaves.push_back(leaf->variable);
    } else {
      reached.functions.push_back(node);
    }
  }
  return reached;
}

bool is_observed(Node& node, uint32_t input) {
  if (node.retains_grad_hooks().contains(static_cast<int>(input))) return true;
  for (const auto& hook : node.tensor_pre_hooks()) {
    if (dynamic_cast<const OwnPreHook*>(hook.get()) != nullptr) continue;
    // libtorch does not export the type information, so dynamic_cast does not work.
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

bool is_left_out(Node& node) {
  const auto* execution = torch::autograd::get_current_graph_task_exec_info();
  if (execution == nullptr || execution->empty()) return false;
  const auto it = execution->find(&node);
  return it == execution->end() || !it->second.should_execute();
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

bool backward_retains_graph() { return torch::autograd::get_current_graph_task_keep_graph(); }

std::optional<uint64_t> evaluated_sequence_number() {
  const auto node = torch::autograd::get_current_node();
  return node ? std::optional(node->sequence_nr()) : std::nullopt;
}

GradientLock::GradientLock(const at::Tensor& tensor) {
  if (!tensor.requires_grad() || has_history(tensor) || tensor.is_view()) return;
  accumulator_.function = torch::autograd::impl::grad_accumulator(tensor);
  if (accumulator_.function) lock_ = std::unique_lock((*accumulator_.function).*NodeMutex::member);
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
  if (lacks_memory(tensor)) return span_without_memory(tensor, {count}, {1}, offset);
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

at::Tensor as_view(const at::Tensor& base, const at::Tensor& tensor) {
  auto replay = std::make_unique<AsStridedView>(base, tensor);
  auto view = torch::autograd::as_view(base, tensor, /*is_bw_differentiable=*/true,
                                       /*is_fw_differentiable=*/true, std::move(replay));
  auto* meta = torch::autograd::impl::get_view_autograd_meta(view);
  if (meta != nullptr && base.requires_grad()) {
    // If the version differs from that of the view, the next access creates a new grad_fn.
    meta->set_attr_version(static_cast<uint32_t>(view._version()) + 1);
    static_cast<void>(view.grad_fn());
  }
  return view;
}

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

bool has_history(const at::Tensor& tensor) { return function_of(tensor) != nullptr; }

bool has_history_of_base(const at::Tensor& view) {
  return has_history(view) && was_made(view, torch::autograd::CreationMeta::DEFAULT) &&
         torch::autograd::impl::get_view_autograd_meta(view)->get_attr_version() ==
             static_cast<uint32_t>(view._version());
}

bool has_lost_history(const at::Tensor& view) {
  if (!view.is_view() || !has_history(view)) return false;
  const auto base = gradient_edge(base_or_self(view)).function;
  const auto* node = view.grad_fn().get();
  while (node != nullptr && node != base.get() && node->num_outputs() == 1) {
    node = node->next_edge(0).function.get();
  }
  return node == nullptr && base != nullptr;
}

bool is_written_one_of_several(const at::Tensor& view) {
  return was_made(view, torch::autograd::CreationMeta::MULTI_OUTPUT_NODE) &&
         torch::autograd::impl::get_view_autograd_meta(view)->get_attr_version() !=
             static_cast<uint32_t>(view._version());
}

bool made_in_custom_function(const at::Tensor& view) {
  return was_made(view, torch::autograd::CreationMeta::IN_CUSTOM_FUNCTION);
}

}  // namespace antegrad::torch_compat
