#include "capture/backward.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/add.h>
#include <ATen/ops/clone.h>

#include <unordered_set>

#include "torch_compat/autograd_graph.h"

namespace antegrad::capture {
namespace {

torch_compat::TensorMetadata tangent_of(const Tracer& tracer, const Output& output,
                                        const ops::TangentForm& form) {
  auto tangent = ops::natural_tangent(tracer.graph.value(output.value).meta);
  if (form.strides) tangent.strides = *form.strides;
  return tangent;
}

// Storages that a gradient must not share, since AccumulateGrad may keep gradients without a copy.
// A tangent may be returned, directly or as a view, as in eager.
class Owned {
 public:
  explicit Owned(const Tracer& tracer) : tracer_(tracer) {}
  /// Returns whether the storage was free.
  bool take(ValueId value) { return taken_.insert(tracer_.graph.value(value).storage).second; }
  void add_tangent(ValueId value) { tangents_.insert(tracer_.graph.value(value).storage); }
  bool is_tangent(ValueId value) const {
    return tangents_.contains(tracer_.graph.value(value).storage);
  }

 private:
  const Tracer& tracer_;
  std::unordered_set<StorageId> taken_;
  std::unordered_set<StorageId> tangents_;
};

ValueId owning_gradient(Tracer& tracer, Owned& owned, const at::Tensor& gradient) {
  const auto value = tracer.value_of(gradient);
  if (owned.is_tangent(value) || owned.take(value)) return value;
  const auto copy = tracer.value_of(at::clone(gradient));
  owned.take(copy);
  return copy;
}

// A place where a gradient arrives: for the root with this index.
struct Receiver {
  int32_t root;
  torch::autograd::Edge edge;
};

// The places to which the history of all results leads, in the order of roots. Every program's node
// has the same edges.
std::vector<Receiver> receivers_of(const Tracer& tracer, const std::vector<at::Tensor>& tensors,
                                   const std::vector<Output>& outputs) {
  std::vector<at::Tensor> starts;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].differentiable()) starts.push_back(tensors[i]);
  }
  const auto reached = torch_compat::functions_from(starts);
  std::vector<Receiver> receivers;
  for (size_t i = 0; i < tracer.roots().size(); ++i) {
    for (const auto* edge : {&tracer.roots()[i].edge, &tracer.roots()[i].direct_edge}) {
      if (!edge->function || !reached.contains(edge->function.get())) continue;
      receivers.push_back({static_cast<int32_t>(i), *edge});
    }
  }
  return receivers;
}

Output gradient_for(int32_t root) {
  Output output;
  output.kind = OutputKind::gradient;
  output.index = root;
  return output;
}

}  // namespace

std::vector<Output> unknown_gradients(const Tracer& tracer, const std::vector<at::Tensor>& tensors,
                                      const std::vector<Output>& outputs) {
  std::vector<Output> gradients;
  for (const auto& receiver : receivers_of(tracer, tensors, outputs)) {
    if (!gradients.empty() && gradients.back().index == receiver.root) continue;
    gradients.push_back(gradient_for(receiver.root));
  }
  return gradients;
}

Backward run_backward(Tracer& tracer, const std::vector<at::Tensor>& tensors,
                      const std::vector<Output>& outputs, const ops::BackwardForm& form) {
  Backward backward;
  Owned owned(tracer);
  for (const auto& root : tracer.roots()) owned.take(root.value);
  for (const auto& output : outputs) {
    if (output.value != kNoValue) owned.take(output.value);
  }

  const auto receivers = receivers_of(tracer, tensors, outputs);
  std::vector<torch::autograd::Edge> starts, targets;
  for (const auto& receiver : receivers) targets.push_back(receiver.edge);
  std::vector<at::Tensor> tangents;
  size_t differentiable = 0;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].differentiable()) continue;
    const auto& tangent_form =
        form.tangents.empty() ? ops::TangentForm() : form.tangents.at(differentiable);
    ++differentiable;
    if (!tangent_form.defined) continue;
    auto [tangent, value] = tracer.make_input(tangent_of(tracer, outputs[i], tangent_form));
    owned.add_tangent(value);
    auto& input = backward.tangents.emplace_back();
    input.value = value;
    input.kind = InputKind::tangent;
    input.index = static_cast<int32_t>(i);
    starts.push_back(torch_compat::gradient_edge(tensors[i]));
    tangents.push_back(std::move(tangent));
  }
  if (starts.empty() || targets.empty()) return backward;

  tracer.phase = Phase::backward;
  tracer.data.let_devices_be_asked();
  const torch_compat::AutocastScope autocast(form.autocast);
  auto gradients = torch_compat::run_backward(starts, tangents, targets);
  tangents.clear();

  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < gradients.size(); ++i) {
    auto gradient = std::move(gradients[i]);
    if (i + 1 < gradients.size() && receivers[i + 1].root == receivers[i].root) {
      auto& direct = gradients[++i];
      if (!gradient.defined()) {
        gradient = std::move(direct);
      } else if (direct.defined()) {
        gradient = at::add(gradient, direct);
      }
    }
    auto output = gradient_for(receivers[i].root);
    if (gradient.defined()) output.value = owning_gradient(tracer, owned, gradient);
    backward.gradients.push_back(output);
  }
  return backward;
}

}  // namespace antegrad::capture
