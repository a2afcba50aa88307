#include <ATen/core/grad_mode.h>
#include <antegrad/checkpoint.h>
#include <c10/util/Exception.h>

#include <mutex>
#include <set>
#include <string>
#include <unordered_map>

#include "eager/checkpoint_node.h"
#include "runtime/inner_gradients.h"
#include "torch_compat/autograd_graph.h"
#include "torch_compat/tensor_state.h"
#include "torch_compat/tracer_context.h"

namespace antegrad {
namespace eager {
namespace {

// Why a result cannot have the node as its history; "" if it can.
std::string obstacle_in(const at::Tensor& result, const torch_compat::GraphMark& mark) {
  if (result.layout() != at::kStrided || !result.has_storage()) {
    return "it returns a tensor that is not strided";
  }
  if (torch_compat::has_forward_gradient(*result.unsafeGetTensorImpl())) {
    return "it is differentiated in forward mode";
  }
  if (!result.is_view()) return "";
  const auto base = torch_compat::base_or_self(result);
  const bool is_inner =
      base.requires_grad() && mark.is_before(*torch_compat::gradient_edge(base).function);
  return is_inner ? "" : "it returns a view of a tensor from outside";
}

void warn_once(const std::string& obstacle) {
  static std::mutex mutex;
  static std::set<std::string> told;
  const std::lock_guard lock(mutex);
  if (!told.insert(obstacle).second) return;
  TORCH_WARN("antegrad: a checkpointed block keeps its activations, because ", obstacle,
             " (docs/checkpoint.md)");
}

// The tensors that the caller gets in place of the results computed inside, before they have a
// history.
struct HandedOut {
  std::vector<at::Tensor> tensors;
  std::vector<bool> retains_grad;
};
HandedOut without_histories(const std::vector<at::Tensor>& leaves, const Results& results) {
  std::unordered_map<const c10::StorageImpl*, size_t> sharers;
  const auto storage_of = [&](size_t leaf) {
    return leaves[leaf].storage().unsafeGetStorageImpl();
  };
  for (const auto leaf : results.leaves) ++sharers[storage_of(leaf)];
  std::unordered_map<const c10::TensorImpl*, at::Tensor> by_result;
  for (const auto leaf : results.leaves) {
    const auto& result = leaves[leaf];
    auto handed = torch_compat::without_history(result);
    if (sharers[storage_of(leaf)] > 1) {
      // A write to one of them would have to change the histories of the others. Autograd refuses
      // this for views made by a function.
      torch_compat::make_view_of(torch_compat::without_history(result), handed,
                                 torch_compat::MadeBy::function);
    }
    by_result.emplace(result.unsafeGetTensorImpl(), std::move(handed));
  }
  HandedOut all;
  for (const auto& leaf : leaves) {
    const auto it = by_result.find(leaf.unsafeGetTensorImpl());
    all.tensors.push_back(it == by_result.end() ? leaf : it->second);
    all.retains_grad.push_back(leaf.defined() && leaf.retains_grad());
  }
  return all;
}

// Makes the node refuse gradients of results from which others were computed: the path between the
// two is not in the outer graph.
void check_inner_gradients(const torch_compat::NodePtr& node, const std::vector<bool>& is_inner) {
  std::vector<runtime::InnerResult> inner;
  for (size_t i = 0; i < is_inner.size(); ++i) {
    if (is_inner[i]) {
      inner.push_back(
          {torch_compat::WeakNode(node), static_cast<uint32_t>(i), static_cast<int32_t>(i)});
    }
  }
  if (inner.empty()) return;
  node->add_tensor_pre_hook(std::make_unique<runtime::InnerGradientCheck>(std::move(inner)));
}

}  // namespace
}  // namespace eager

namespace detail {

bool checkpoints_now() { return at::GradMode::is_enabled() && torch_compat::carried() == nullptr; }

Leaves checkpoint(const CheckpointOptions& options, const Leaves& arguments,
                  const std::function<Leaves()>& first, RunAgain again) {
  using eager::Recording;
  auto recording = std::make_shared<Recording>(Recording{
      .again = std::move(again),
      .host = arguments.host,
      .autocast = torch_compat::Autocast::now(),
      .autocast_caches = torch_compat::autocast_caches(),
      .outside = eager::Outside(options.generators),
  });
  // Histories of views are created on first access, which must not happen inside.
  for (const auto& tensor : arguments.tensors) {
    if (tensor.defined() && tensor.requires_grad()) torch_compat::gradient_edge(tensor);
  }
  const auto mark = torch_compat::GraphMark::now();
  Leaves leaves;
  {
    const torch_compat::ObserverScope watching(recording->outside);
    leaves = first();
  }
  auto results = eager::results_of(leaves.tensors, mark);
  if (results.edges.empty()) return leaves;
  auto obstacle = recording->outside.finish();
  for (const auto leaf : results.leaves) {
    if (!obstacle.empty()) break;
    obstacle = eager::obstacle_in(leaves.tensors[leaf], mark);
  }
  if (!obstacle.empty()) {
    eager::warn_once(obstacle);
    return leaves;
  }
  auto leaving = torch_compat::leaving_edges(results.edges, mark, {});
  recording->casts = torch_compat::shared_casts(leaving);
  if (!recording->casts.empty()) {
    leaving = torch_compat::leaving_edges(results.edges, mark, recording->casts);
  }
  recording->forms = results.forms;
  for (const auto& edge : leaving) recording->targets.push_back(edge.target);
  const auto inner = torch_compat::are_inner(results.edges, mark);
  auto handed = eager::without_histories(leaves.tensors, results);
  // Frees the graph, and thereby everything that holds leaves created by the block.
  leaves.tensors.clear();
  results.edges.clear();
  recording->slots = eager::slots_for(recording->targets);
  torch::autograd::edge_list next_edges;
  for (size_t i = 0; i < recording->targets.size(); ++i) {
    if (recording->slots[i] == next_edges.size()) next_edges.push_back(recording->targets[i]);
    if (recording->slots[i] == torch_compat::kNoSlot) recording->targets[i] = {};
  }
  const auto node = torch_compat::make_node<eager::CheckpointNode>(
                        std::move(recording), arguments.tensors, std::move(next_edges))
                        .first;
  eager::check_inner_gradients(node, inner);
  for (const auto leaf : results.leaves) {
    torch_compat::set_history(handed.tensors[leaf], node);
    if (handed.retains_grad[leaf]) handed.tensors[leaf].retain_grad();
  }
  return {std::move(handed.tensors), std::move(leaves.host)};
}

}  // namespace detail
}  // namespace antegrad
