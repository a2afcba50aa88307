#include "capture/kernels.h"

#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/core/grad_mode.h>
#include <antegrad/error.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <typeinfo>

#include "capture/data_access.h"
#include "capture/data_questions.h"
#include "capture/in_place.h"
#include "capture/interceptions.h"
#include "capture/tracer.h"
#include "capture/writing.h"
#include "graph/lazy_bits.h"
#include "ops/tensors_in.h"
#include "torch_compat/convert.h"
#include "torch_compat/keys.h"

namespace antegrad::capture {
namespace {

// set_data(stand-in) gives a real tensor the keys of a wrapper; using it as a wrapper would crash.
void require_wrapper(const at::Tensor& tensor) {
  const auto& impl = *tensor.unsafeGetTensorImpl();
  if (typeid(impl) == typeid(at::FunctionalTensorWrapper)) return;
  throw EscapeError(
      "set_data", {"tensors that keep their data during the call",
                   "a tensor whose data was exchanged inside the callable, used at " + call_site(),
                   "call set_data between calls"});
}

bool is_wrapper(const at::Tensor& tensor) {
  return tensor.defined() && tensor.key_set().has(c10::DispatchKey::Functionalize);
}

// A wrapper that libtorch copied without the dispatcher (variable_data()) would ask its storage for
// the device.
void take_wrapper(const at::Tensor& tensor) {
  require_wrapper(tensor);
  tensor.unsafeGetTensorImpl()->set_custom_device(false);
}

// The lifted form of a tensor.
at::Tensor lifted(Tracer& tracer, const at::Tensor& tensor) {
  if (!is_wrapper(tensor)) return tracer.lift(tensor);
  take_wrapper(tensor);
  return tensor;
}

template <class Test>
bool any_tensor(at::ArrayRef<c10::IValue> values, const Test& test) {
  const auto holds = [&](const at::Tensor& t) { return t.defined() && test(t); };
  return std::any_of(values.begin(), values.end(), [&](const c10::IValue& value) {
    if (value.isTensor()) return holds(value.toTensor());
    if (!value.isTensorList()) return false;
    const auto list = value.toTensorVector();
    return std::any_of(list.begin(), list.end(), holds);
  });
}

template <class Visit>
void for_wrappers(at::ArrayRef<c10::IValue> values, const Visit& visit) {
  any_tensor(values, [&](const at::Tensor& t) {
    if (t.key_set().has(c10::DispatchKey::Functionalize)) visit(t);
    return false;
  });
}

// A wrapper has the sizes and strides of its value. The value is replaced when the wrapper is
// written, and when it is read after its memory was written elsewhere. In eager, sizes and strides
// stay at the same address, and libtorch and its users keep references to them.
void keep_sizes(Tracer& tracer, const ops::OpEntry& entry, at::ArrayRef<c10::IValue> args) {
  for_wrappers(args, [&](const at::Tensor& wrapper) {
    const auto* functional = at::functionalization::impl::unsafeGetFunctionalWrapper(wrapper);
    if (entry.writes.empty() && functional->is_up_to_date()) return;
    tracer.keep_exchanged(functional->value());
  });
}

// A wrapper over a view must not get a lazy bit that its value would not have: see
// graph/lazy_bits.h.
LazyBits bits_of_views(const ops::OpEntry& entry, at::ArrayRef<c10::IValue> args) {
  const auto& traits = entry.op.traits();
  if (!traits.view || traits.mutates || args.empty() || !args[0].isTensor()) return {};
  const auto& self = args[0].toTensor();
  if (!self.defined()) return {};
  return behind(entry.op, {self.is_conj(), self.is_neg()});
}

void set_bits(Tracer& tracer, const at::Tensor& view, LazyBits bits) {
  tracer.lazy_bits |= bits.conj || bits.neg;
  auto* impl = view.unsafeGetTensorImpl();
  if (view.is_conj() != bits.conj) impl->_set_conj(bits.conj);
  if (view.is_neg() != bits.neg) impl->_set_neg(bits.neg);
}

bool any_requires_grad(at::ArrayRef<c10::IValue> values) {
  return any_tensor(values, [](const at::Tensor& t) { return t.requires_grad(); });
}

// Eager would differentiate the libtorch operators inside the kernel, or nothing. Capture cannot
// know which.
void require_no_derivative(const ops::OpEntry& entry, at::ArrayRef<c10::IValue> outputs) {
  const auto floating = [](const at::Tensor& t) { return t.is_floating_point() || t.is_complex(); };
  if (!any_tensor(outputs, floating)) return;
  throw CaptureError(
      entry.op.name(),
      {"custom operators with a kernel for autograd, where inputs require grad",
       "one without, called at " + call_site(),
       "register a kernel for the dispatch key Autograd (a torch::autograd::Function, or "
       "torch::autograd::autogradNotImplementedFallback()), or detach() the inputs"});
}

}  // namespace

void lift_kernel(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                 torch::jit::Stack* stack) try {
  auto* tracer = Tracer::current();
  AG_CHECK(tracer != nullptr, "the lift key is on without a capture");
  const auto& entry = ops::entry_of(op);
  for (auto i = stack->size() - entry.args.size(); i < stack->size(); ++i) {
    (*stack)[i] =
        ops::map_tensors((*stack)[i], [&](const at::Tensor& t) { return lifted(*tracer, t); });
  }
  if (intercept(entry, stack)) return;
  if (entry.own_functionalize) register_writing(op);
  if (entry.op.traits().effect && entry.composite) {
    call_effect(entry, stack);
    return;
  }
  if (entry.composite) {
    // Its parts pass through here one by one, so that new tensors are lifted above autograd.
    op.redispatchBoxed(
        keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, torch_compat::lift_key), stack);
    return;
  }
  const bool by_chance = entry.undeclared_derivative && at::GradMode::is_enabled() &&
                         any_requires_grad(torch::jit::last(*stack, entry.args.size()));
  const c10::impl::ExcludeDispatchKeyGuard off(torch_compat::lift_key);
  keep_sizes(*tracer, entry, torch::jit::last(*stack, entry.args.size()));
  const InPlace in_place(*tracer, entry, torch::jit::last(*stack, entry.args.size()));
  const auto bits = bits_of_views(entry, torch::jit::last(*stack, entry.args.size()));
  {
    DataAllowed allowed(tracer->data);
    for_wrappers(torch::jit::last(*stack, entry.args.size()),
                 [&](const at::Tensor& wrapper) { allowed.add(wrapper); });
    op.callBoxed(stack);
  }
  in_place.finish();
  const auto outputs = torch::jit::last(*stack, op.schema().returns().size());
  for_wrappers(outputs, [&](const at::Tensor& wrapper) {
    tracer->data.forbid(wrapper);
    if (bits != LazyBits()) set_bits(*tracer, wrapper, bits);
    if (wrapper.is_view()) tracer->note_view(wrapper);
  });
  if (by_chance) require_no_derivative(entry, outputs);
} catch (const Error&) {
  if (auto* tracer = Tracer::current()) tracer->note_raised();
  throw;
}

void register_kernels() {
  torch_compat::register_fallbacks(&lift_kernel, &record_kernel);
  register_writing_operators();
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
  const auto& entry = ops::entry_of(op);
  tracer->record(entry, stack);
  if (entry.policy == ops::Policy::dynamic_outputs) {
    keep_question(*tracer, torch::jit::last(*stack, op.schema().returns().size()));
  }
}

}  // namespace antegrad::capture
