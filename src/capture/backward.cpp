#include "capture/backward.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/add.h>
#include <ATen/ops/clone.h>
#include <antegrad/error.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "capture/derivative.h"
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

// The new values that the request makes of defined gradients, in the order of roots.
std::vector<Output> updates_for(Tracer& tracer, Owned& owned, const Request& request,
                                const std::vector<std::pair<int32_t, at::Tensor>>& gradients) {
  std::vector<std::pair<at::Tensor, at::Tensor>> defined;
  for (const auto& [root, gradient] : gradients) {
    if (gradient.defined()) defined.emplace_back(tracer.roots()[root].real, gradient);
  }
  std::vector<Output> outputs;
  for (const auto& [input, value] : request.update(defined, request.arguments)) {
    const auto root = tracer.root_of(input);
    AG_CHECK(root >= 0, "a new value is that of an input");
    auto& output = outputs.emplace_back(gradient_for(root));
    output.update = true;
    output.value = owning_gradient(tracer, owned, value);
  }
  std::ranges::sort(outputs, {}, &Output::index);
  return outputs;
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
                      const std::vector<Output>& outputs, const Request& request) {
  const auto& form = request.variation.backward;
  Backward backward;
  Owned owned(tracer);
  for (const auto& root : tracer.roots()) owned.take(root.value);
  for (const auto& output : outputs) {
    if (output.value != kNoValue) owned.take(output.value);
  }

  const auto receivers = receivers_of(tracer, tensors, outputs);
  CutPass pass;
  for (const auto& receiver : receivers) pass.targets.push_back(receiver.edge);
  size_t differentiable = 0;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].differentiable()) continue;
    const auto& tangent_form =
        form.tangents.empty() ? ops::TangentForm() : form.tangents.at(differentiable);
    const auto place = differentiable++;
    if (!tangent_form.defined) continue;
    auto [tangent, value] = tracer.make_input(tangent_of(tracer, outputs[i], tangent_form));
    owned.add_tangent(value);
    auto& input = backward.tangents.emplace_back();
    input.value = value;
    input.kind = InputKind::tangent;
    input.index = static_cast<int32_t>(i);
    pass.starts.push_back({place, torch_compat::gradient_edge(tensors[i]), std::move(tangent)});
  }
  if (pass.starts.empty() || pass.targets.empty()) return backward;

  tracer.phase = Phase::backward;
  tracer.data.let_devices_be_asked();
  const torch_compat::AutocastScope autocast(form.autocast);
  auto [gradients, of_results] = pass.run(tracer.cut);
  pass.starts.clear();

  const at::NoGradGuard no_grad;
  std::vector<std::pair<int32_t, at::Tensor>> found;  // by root
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
    found.emplace_back(receivers[i].root, std::move(gradient));
  }
  for (size_t i = 0; i < of_results.size(); ++i) {
    const auto probe = tracer.cut.results[i].probe;
    if (probe >= 0) found.emplace_back(probe, std::move(of_results[i]));
  }
  std::ranges::stable_sort(found, {}, &std::pair<int32_t, at::Tensor>::first);
  if (request.update) {
    backward.gradients = updates_for(tracer, owned, request, found);
    return backward;
  }
  for (const auto& [root, gradient] : found) {
    auto& output = backward.gradients.emplace_back(gradient_for(root));
    if (gradient.defined()) output.value = owning_gradient(tracer, owned, gradient);
  }
  return backward;
}

}  // namespace antegrad::capture
