#include "capture/derivative.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/add.h>
#include <ATen/ops/clone.h>
#include <antegrad/error.h>

#include <algorithm>
#include <memory>
#include <unordered_set>
#include <utility>

#include "capture/handed_out.h"
#include "capture/shared_memory.h"
#include "capture/tracer.h"
#include "torch_compat/autograd_graph.h"

namespace antegrad::capture {
namespace {

using torch::autograd::Edge;
using torch::autograd::variable_list;

void refuse_written_inputs(const Tracer& tracer) {
  for (const auto& root : tracer.roots()) {
    if (root.follows_base || !has_new_history(root)) continue;
    throw CaptureError("create_graph",
                       {"a callable that returns what it computes from inputs that require grad",
                        "one that writes it into an input",
                        "compute higher derivatives inside, or write to a clone()"});
  }
}

// Lets another gradient go on where one has arrived.
class Exchange final : public torch_compat::OwnPreHook {
 public:
  Exchange(uint32_t input, std::shared_ptr<const std::optional<at::Tensor>> other)
      : input_(input), other_(std::move(other)) {}
  variable_list operator()(const variable_list& arrived) override {
    auto exchanged = arrived;
    if (*other_) exchanged[input_] = **other_;
    return exchanged;
  }

 private:
  uint32_t input_;
  std::shared_ptr<const std::optional<at::Tensor>> other_;  // none once the pass has ended
};

// Results of the callable from which gradients were computed, but no other result: what arrives
// from that one cannot be told from what arrives from gradients.
void note_cut(Tracer& tracer, const Derivative& derivative, const HandedOut& handed, int32_t leaf,
              const std::vector<at::Tensor>& gradients) {
  std::vector<at::Tensor> with_history;
  for (const auto& gradient : gradients) {
    if (gradient.defined() && gradient.requires_grad()) with_history.push_back(gradient);
  }
  const auto reached = torch_compat::functions_from(with_history);
  std::unordered_set<const torch::autograd::Node*> inner;
  for (size_t i = 0; i < handed.outputs.size(); ++i) {
    if (!handed.outputs[i].differentiable()) continue;
    const auto history = torch_compat::history_of(handed.tensors[i]);
    inner.insert(history.begin(), history.end());
  }
  Cut cut;
  for (size_t i = 0; i < handed.outputs.size(); ++i) {
    if (!handed.outputs[i].differentiable()) continue;
    const auto place = cut.outputs++;
    const auto& tensor = handed.tensors[i];
    const auto* function = torch_compat::function_of(tensor);
    if (!reached.contains(function) || inner.contains(function)) continue;
    auto& result = cut.results.emplace_back(Cut::Result{place, tensor, -1});
    if (derivative.probes.empty()) continue;  // another pass comes
    const auto& probe = derivative.probes.at(place);
    tracer.lift_argument(probe, leaf + static_cast<int32_t>(derivative.tangents.size() + place));
    result.probe = tracer.root_of(probe);
  }
  tracer.cut = std::move(cut);
}

}  // namespace

CutPass::Gradients CutPass::run(const Cut& cut) const {
  Gradients gradients;
  std::vector<Edge> edges;
  for (const auto& result : cut.results) {
    edges.push_back(torch_compat::gradient_edge(result.tensor));
  }
  gradients.of_results.resize(edges.size());
  std::vector<Edge> behind;  // of what was computed from results
  std::vector<at::Tensor> tangents;
  for (const auto& start : starts) {
    if (start.place < cut.outputs) continue;
    behind.push_back(start.edge);
    tangents.push_back(start.tangent);
  }
  if (!edges.empty() && !behind.empty()) {
    gradients.of_results =
        torch_compat::run_backward(behind, tangents, edges, {true, create_graph});
  }
  // Where a gradient arrives inside, the whole one takes its place; elsewhere a pass starts there.
  std::vector<std::shared_ptr<std::optional<at::Tensor>>> exchanged;
  std::vector<bool> arrives(cut.outputs, false);
  for (size_t i = 0; i < edges.size(); ++i) {
    if (!gradients.of_results[i].defined()) continue;
    const auto place = cut.results[i].place;
    arrives[place] = true;
    const auto start = std::ranges::find(starts, place, &Start::place);
    exchanged.push_back(std::make_shared<std::optional<at::Tensor>>(
        start == starts.end() ? at::Tensor() : start->tangent));
    edges[i].function->add_tensor_pre_hook(
        std::make_unique<Exchange>(edges[i].input_nr, exchanged.back()));
  }
  std::vector<Edge> roots;
  tangents.clear();
  for (const auto& start : starts) {
    if (start.place < cut.outputs && arrives[start.place]) continue;
    roots.push_back(start.edge);
    tangents.push_back(start.tangent);
  }
  gradients.of_targets.resize(targets.size());
  if (!roots.empty() && !targets.empty()) {
    gradients.of_targets =
        torch_compat::run_backward(roots, tangents, targets, {create_graph, create_graph});
  }
  for (const auto& other : exchanged) other->reset();
  return gradients;
}

void add_gradients(Tracer& tracer, const Derivative& derivative, int32_t leaf,
                   std::vector<at::Tensor>& results) {
  refuse_written_inputs(tracer);
  for (auto& result : results) result = tracer.lift(result);
  const auto handed = describe_results(tracer, results);

  CutPass pass{.starts = {}, .targets = {}, .create_graph = true};
  std::vector<at::Tensor> differentiable;
  bool have_history = false;  // some tangents
  for (size_t i = 0; i < handed.outputs.size(); ++i) {
    if (!handed.outputs[i].differentiable()) continue;
    const auto place = differentiable.size();
    differentiable.push_back(handed.tensors[i]);
    const auto& tangent = derivative.tangents.at(place);
    if (!tangent.defined()) continue;
    auto lifted = tracer.lift_argument(tangent, leaf + static_cast<int32_t>(place));
    have_history |= lifted.requires_grad();
    pass.starts.push_back(
        {place, torch_compat::gradient_edge(handed.tensors[i]), std::move(lifted)});
  }
  AG_CHECK(differentiable.size() == derivative.tangents.size(),
           "a tangent for each differentiable output");

  std::vector<size_t> wanted;  // by target
  for (size_t i = 0; i < derivative.wanted.size(); ++i) {
    if (derivative.wanted[i].output >= 0) continue;
    const auto index = tracer.root_of(derivative.wanted[i].input);
    AG_CHECK(index >= 0, "a gradient is wanted of a tensor that the capture knows");
    const auto& root = tracer.roots()[index];
    // Two places for an input that an autograd::Function received as it is.
    for (const auto* edge : {&root.edge, &root.direct_edge}) {
      if (!edge->function) continue;
      pass.targets.push_back(*edge);
      wanted.push_back(i);
    }
  }
  std::vector<at::Tensor> gradients(derivative.wanted.size());
  const at::AutoGradMode grad_mode(true);
  {
    const torch_compat::AutocastScope autocast(derivative.autocast);
    auto found = pass.run(tracer.cut);
    for (size_t i = 0; i < found.of_targets.size(); ++i) {
      auto& gradient = found.of_targets[i];
      if (!gradient.defined()) continue;
      auto& sum = gradients[wanted[i]];
      sum = sum.defined() ? at::add(sum, gradient) : std::move(gradient);
    }
    for (size_t i = 0; i < derivative.wanted.size(); ++i) {
      const auto output = derivative.wanted[i].output;
      if (output < 0) continue;
      const auto at =
          std::ranges::find(tracer.cut.results, static_cast<size_t>(output), &Cut::Result::place);
      if (at == tracer.cut.results.end()) continue;
      gradients[i] = found.of_results[at - tracer.cut.results.begin()];
    }
  }
  if (have_history) note_cut(tracer, derivative, handed, leaf, gradients);
  // Gradients may get a node of their own (runtime/derivative_pass.cpp), which cannot stand behind
  // views.
  for (auto& gradient : gradients) {
    if (have_history && gradient.defined() && gradient.is_view()) gradient = at::clone(gradient);
  }
  std::ranges::move(gradients, std::back_inserter(results));
}

}  // namespace antegrad::capture
