#include "runtime/call_inputs.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <antegrad/error.h>

#include "runtime/copy_in_place.h"

namespace antegrad::runtime {

CallInputs::CallInputs(const CallPlan& plan, const std::vector<at::Tensor>& primals,
                       const std::vector<at::Generator>& generators)
    : kept_(primals.size()), generators_(generators) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  for (const auto& resize : plan.resizes) resizes_ |= resize.allocates();
  if (resizes_) return;
  for (const auto& mutation : plan.mutations) {
    const auto& written = primals[mutation.primal];
    wrote_variable_ |= written.requires_grad();
    kept_[mutation.primal].raw = copy_in_place(written);
  }
}

void CallInputs::keep(const std::vector<at::Tensor>& primals) {
  for (size_t i = 0; i < primals.size(); ++i) {
    auto& kept = kept_[i];
    if (kept.raw.defined()) continue;
    if (primals[i].is_inference()) {
      kept.raw = primals[i];
    } else {
      kept.variable.emplace(primals[i], /*is_output=*/false);
    }
  }
}

std::vector<at::Tensor> CallInputs::primals(const torch_compat::NodePtr& node) const {
  if (resizes_) {
    throw BackwardError(ErrorText{"a call that allocates no storage of an input, for create_graph",
                                  "one that does",
                                  "compute higher derivatives inside, or allocate it before"});
  }
  if (wrote_variable_) {
    throw BackwardError(
        ErrorText{"a call that writes no input that requires grad, for create_graph",
                  "one that does", "compute higher derivatives inside, or write to a clone()"});
  }
  std::vector<at::Tensor> primals;
  primals.reserve(kept_.size());
  for (const auto& kept : kept_) {
    primals.push_back(kept.variable ? kept.variable->unpack(node) : kept.raw);
  }
  return primals;
}

}  // namespace antegrad::runtime
