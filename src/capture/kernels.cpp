#include "capture/kernels.h"

#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/core/List.h>
#include <antegrad/error.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <typeinfo>

#include "capture/interceptions.h"
#include "capture/tracer.h"
#include "torch_compat/convert.h"
#include "torch_compat/keys.h"

namespace antegrad::capture {
namespace {

// set_data(stand-in) gives a real tensor the keys of a wrapper; used as one it would crash.
void require_wrapper(const at::Tensor& tensor) {
  const auto& impl = *tensor.unsafeGetTensorImpl();
  if (typeid(impl) == typeid(at::FunctionalTensorWrapper)) return;
  throw EscapeError(
      "set_data", {"tensors that keep their data during the call",
                   "a tensor whose data was exchanged inside the callable, used at " + call_site(),
                   "call set_data between calls"});
}

// Exchanges the real tensors of one argument; leaves the IValue alone when there are none.
void lift_argument(Tracer& tracer, c10::IValue& value) {
  if (value.isTensor()) {
    const auto& tensor = value.toTensor();
    if (!tensor.defined()) return;
    if (!tensor.key_set().has(c10::DispatchKey::Functionalize)) {
      value = tracer.lift(tensor);
    } else {
      require_wrapper(tensor);
    }
  } else if (value.isTensorList()) {
    c10::List<at::Tensor> lifted;
    for (const auto& t : value.toTensorVector()) lifted.push_back(tracer.lift(t));
    value = std::move(lifted);
  } else if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> lifted;
    for (const std::optional<at::Tensor> t : value.toOptionalTensorList()) {
      lifted.push_back(t ? std::optional(tracer.lift(*t)) : t);
    }
    value = std::move(lifted);
  }
}

}  // namespace

void lift_kernel(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                 torch::jit::Stack* stack) {
  auto* tracer = Tracer::current();
  AG_CHECK(tracer != nullptr, "the lift key is on without a capture");
  const auto& entry = ops::entry_of(op);
  for (auto i = stack->size() - entry.args.size(); i < stack->size(); ++i) {
    lift_argument(*tracer, (*stack)[i]);
  }
  if (intercept(entry, stack)) return;
  if (entry.composite) {
    // Its parts come through here one by one, so that tensors they make are lifted above autograd.
    op.redispatchBoxed(
        keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, torch_compat::lift_key), stack);
    return;
  }
  const c10::impl::ExcludeDispatchKeyGuard off(torch_compat::lift_key);
  op.callBoxed(stack);
}

void record_kernel(const c10::OperatorHandle& op, c10::DispatchKeySet /*keys*/,
                   torch::jit::Stack* stack) {
  auto* tracer = Tracer::current();
  if (tracer == nullptr) {
    throw EscapeError(
        torch_compat::to_op_name(op.operator_name()),
        {"tensors that hold data",
         "a stand-in used outside its capture or on another thread, at " + call_site(),
         "do not keep tensors that were made inside a compiled callable, and do not "
         "hand them to other threads"});
  }
  tracer->record(ops::entry_of(op), stack);
}

}  // namespace antegrad::capture
