// ag::grad: gradients inside a callable.

#include <antegrad/inside.h>
#include <torch/csrc/autograd/autograd.h>

#include "capture/tracer.h"

namespace antegrad {

std::vector<at::Tensor> grad(const std::vector<at::Tensor>& outputs,
                             const std::vector<at::Tensor>& inputs,
                             const std::vector<at::Tensor>& grad_outputs,
                             std::optional<bool> retain_graph, bool create_graph,
                             bool allow_unused) {
  auto* tracer = capture::Tracer::current();
  const auto lifted = [&](std::vector<at::Tensor> tensors) {
    if (tracer == nullptr) return tensors;
    for (auto& tensor : tensors) tensor = tracer->lift(tensor);
    return tensors;
  };
  return torch::autograd::grad(lifted(outputs), lifted(inputs), lifted(grad_outputs), retain_graph,
                               create_graph, allow_unused);
}

}  // namespace antegrad
