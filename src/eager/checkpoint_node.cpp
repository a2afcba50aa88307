#include "eager/checkpoint_node.h"

#include <ATen/core/grad_mode.h>
#include <antegrad/error.h>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "runtime/front_errors.h"
#include "torch_compat/autograd_graph.h"

namespace antegrad::eager {

using torch::autograd::Edge;
using torch::autograd::variable_list;

Results results_of(const std::vector<at::Tensor>& leaves, const torch_compat::GraphMark& mark) {
  Results results;
  std::unordered_map<const c10::TensorImpl*, size_t> seen;
  for (size_t i = 0; i < leaves.size(); ++i) {
    const auto& tensor = leaves[i];
    auto& form = results.forms.emplace_back();
    if (!tensor.defined()) continue;
    form.defined = true;
    form.dtype = tensor.scalar_type();
    form.device = tensor.device();
    form.sizes = tensor.sizes().vec();
    // A view made with grad mode off has a history that nothing may read.
    if (!tensor.requires_grad() || torch_compat::made_without_grad(tensor)) continue;
    auto edge = torch_compat::gradient_edge(tensor);
    form.computed = mark.is_before(*edge.function);
    if (!form.computed) continue;
    form.repeated = !seen.emplace(tensor.unsafeGetTensorImpl(), i).second;
    if (form.repeated) continue;
    results.edges.push_back(std::move(edge));
    results.leaves.push_back(i);
  }
  return results;
}

std::vector<size_t> slots_for(const std::vector<Edge>& targets) {
  // More would cost memory: a weight that a loop uses a hundred times has a hundred gradients.
  constexpr size_t kMaxApart = 4;
  using Target = std::pair<const torch::autograd::Node*, uint32_t>;
  const auto key = [](const Edge& edge) { return Target(edge.function.get(), edge.input_nr); };
  std::map<Target, size_t> edges;
  for (const auto& target : targets) ++edges[key(target)];
  std::map<Target, size_t> sums;
  std::vector<size_t> slots;
  size_t count = 0;
  for (const auto& target : targets) {
    if (torch_compat::leads_to_unseen_leaf(target)) {
      slots.push_back(torch_compat::kNoSlot);
    } else if (edges[key(target)] <= kMaxApart) {
      slots.push_back(count++);
    } else {
      const auto [it, is_new] = sums.try_emplace(key(target), count);
      if (is_new) ++count;
      slots.push_back(it->second);
    }
  }
  return slots;
}

CheckpointNode::CheckpointNode(std::shared_ptr<const Recording> recording,
                               const std::vector<at::Tensor>& arguments,
                               torch::autograd::edge_list&& next_edges)
    : Node(std::move(next_edges)), recording_(std::move(recording)) {
  for (const auto& tensor : arguments) {
    const bool saves = !tensor.defined() || !tensor.is_inference();
    arguments_.emplace_back(saves ? tensor : at::Tensor(), /*is_output=*/false);
    unversioned_.push_back(saves ? at::Tensor() : tensor);
  }
}

void CheckpointNode::release_variables() {
  const std::lock_guard lock(mutex_);
  release();
}

void CheckpointNode::release() {
  recording_.reset();
  arguments_.clear();
  unversioned_.clear();
}

CheckpointNode::Saved CheckpointNode::take(bool keep) {
  const std::lock_guard lock(mutex_);
  if (!recording_) {
    throw BackwardError(
        ErrorText{"arguments of the checkpointed block",
                  "that an earlier backward pass, finished or failed, freed them",
                  "pass retain_graph=true to the first backward() when a second one follows"});
  }
  recording_->outside.check_unchanged();
  Saved saved;
  saved.recording = recording_;
  saved.arguments.host = recording_->host;
  for (size_t i = 0; i < arguments_.size(); ++i) {
    saved.arguments.tensors.push_back(unversioned_[i].defined() ? unversioned_[i]
                                                                : arguments_[i].unpack(getptr()));
  }
  if (!keep) release();
  return saved;
}

namespace {

[[noreturn]] void refuse_other_graph(const std::string& found) {
  throw BackwardError(ErrorText{"a recomputation like the forward of the checkpointed block", found,
                                "let the block compute the same each time it runs: from its "
                                "arguments, and from parameters, buffers "
                                "and host state that do not change between forward and backward"});
}

void require_same_forms(const std::vector<ResultForm>& forward,
                        const std::vector<ResultForm>& now) {
  if (forward.size() != now.size()) {
    refuse_other_graph(std::to_string(now.size()) + " result tensors instead of " +
                       std::to_string(forward.size()));
  }
  for (size_t i = 0; i < forward.size(); ++i) {
    if (forward[i] == now[i]) continue;
    refuse_other_graph("result tensor " + std::to_string(i) +
                       " of another size, dtype, device or history");
  }
}

void require_same_targets(const std::vector<Edge>& forward,
                          const std::vector<torch_compat::LeavingEdge>& now) {
  const auto is_known = [&](const Edge& edge) {
    return std::find(forward.begin(), forward.end(), edge) != forward.end();
  };
  const bool same =
      std::equal(forward.begin(), forward.end(), now.begin(), now.end(),
                 [&](const Edge& then, const torch_compat::LeavingEdge& edge) {
                   if (then.is_valid()) return then == edge.target;
                   return torch_compat::leads_to_leaf(edge.target) && !is_known(edge.target);
                 });
  if (!same) refuse_other_graph("another autograd graph, whose gradients go elsewhere");
}

}  // namespace

variable_list CheckpointNode::apply(variable_list&& tangents) try {
  variable_list gradients(num_outputs());
  const bool any = std::any_of(tangents.begin(), tangents.end(),
                               [](const at::Tensor& tangent) { return tangent.defined(); });
  if (!any) return gradients;
  torch_compat::InnerRun inner;
  inner.create_graph = at::GradMode::is_enabled();
  for (size_t i = 0; i < num_outputs(); ++i) inner.wanted.push_back(task_should_compute_output(i));
  auto saved = take(/*keep=*/torch_compat::backward_retains_graph());
  const auto recording = saved.recording;
  // The inner backward may read buffers as the recomputation left them.
  const BuffersBefore buffers(recording->outside);
  Results results;  // keeps all nodes alive that `inner` refers to
  {
    const RandomReplay random(recording->outside.random());
    const torch_compat::AutocastRegion autocast(recording->autocast, recording->autocast_caches);
    const at::AutoGradMode grad_mode(true);
    const auto mark = torch_compat::GraphMark::now();
    const auto leaves = recording->again(saved.arguments);
    random.check();
    results = results_of(leaves.tensors, mark);
    require_same_forms(recording->forms, results.forms);
    inner.leaving = torch_compat::leaving_edges(results.edges, mark, recording->casts);
    require_same_targets(recording->targets, inner.leaving);
    for (size_t i = 0; i < tangents.size(); ++i) {
      if (!tangents[i].defined()) continue;
      inner.roots.push_back(results.edges[i]);
      inner.tangents.push_back(std::move(tangents[i]));
    }
  }
  saved.arguments.tensors.clear();
  inner.slots = recording->slots;
  return torch_compat::run(inner);
} catch (const Error& error) {
  runtime::rethrow_for_front(error);
}

}  // namespace antegrad::eager
