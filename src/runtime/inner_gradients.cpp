#include "runtime/inner_gradients.h"

#include <antegrad/error.h>

namespace antegrad::runtime {
using torch::autograd::variable_list;

void refuse_inner_gradient() {
  throw BackwardError(ErrorText{
      "gradients of arguments and parameters of a compiled region or a checkpointed block",
      "a question (grad(), a hook or retain_grad()) for the gradient of a result, or of "
      "an argument written in place, that other results were computed from inside",
      "compute it inside with ag::grad, or make two of the region or block"});
}

variable_list InnerGradientCheck::operator()(const variable_list& tangents) {
  for (const auto& inner : inner_) {
    const auto node = inner.node.lock();
    if (!node || !torch_compat::is_observed(*node, inner.output)) continue;
    for (size_t i = 0; i < tangents.size(); ++i) {
      if (tangents[i].defined() && static_cast<int32_t>(i) != inner.tangent)
        refuse_inner_gradient();
    }
  }
  return tangents;
}

variable_list WrittenViewCheck::operator()(const variable_list& gradients) {
  const auto region = region_.lock(), view = view_.lock();
  if (region && view && torch_compat::is_observed(*view, output_) &&
      torch_compat::is_left_out(*region)) {
    refuse_inner_gradient();
  }
  return gradients;
}

}  // namespace antegrad::runtime
