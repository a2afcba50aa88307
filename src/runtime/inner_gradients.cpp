#include "runtime/inner_gradients.h"

#include <antegrad/error.h>

#include <algorithm>

#include "torch_compat/autograd_graph.h"

namespace antegrad::runtime {

using torch::autograd::variable_list;

variable_list InnerGradientCheck::operator()(const variable_list& tangents) {
  for (const auto& inner : inner_) {
    const auto node = inner.node.lock();
    if (!node || !torch_compat::is_observed(*node, inner.output, this)) continue;
    for (size_t i = 0; i < tangents.size(); ++i) {
      if (!tangents[i].defined() || static_cast<int32_t>(i) == inner.tangent) continue;
      throw BackwardError(ErrorText{
          "gradients of arguments and parameters of the compiled region",
          "a question (grad(), a hook or retain_grad()) for the gradient of a result, or of an argument "
          "written in place, that other results were computed from inside the region",
          "compute it inside with ag::grad, or compile the two parts separately"});
    }
  }
  return tangents;
}

}  // namespace antegrad::runtime
