#include "capture/writing.h"

#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <antegrad/error.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <vector>

#include "capture/tracer.h"
#include "ops/tensors_in.h"
#include "torch_compat/convert.h"
#include "torch_compat/keys.h"

namespace antegrad::capture {
namespace {

namespace functionalization = at::functionalization::impl;
using torch::jit::Stack;

// The program writes to copies, so a second view of written memory would not see the write.
void refuse_overlap(const ops::OpEntry& entry, const std::vector<c10::IValue>& args,
                    const std::vector<at::Tensor>& written) {
  for (const auto& w : written) {
    if (!functionalization::isFunctionalTensor(w)) {
      throw CaptureError(entry.op.name(),
                         {"tensors that the callable received, holds or computed",
                          "a written tensor that appeared below autograd, at " + call_site(),
                          "pass it as an argument"});
    }
    for (const auto& arg : args) {
      ops::for_each_tensor(arg, [&](const at::Tensor& t) {
        if (!t.defined() || t.is_same(w) || storage_of(t) != storage_of(w)) return;
        throw MutationError(entry.op.name(),
                            {"written arguments that share no memory with other arguments",
                             "one that is another view of the same memory, at " + call_site(),
                             "pass one of the two, or a clone() of the one that is only read"});
      });
    }
  }
}

[[noreturn]] void refuse_alias(const ops::OpEntry& entry) {
  throw CaptureError(entry.op.name(),
                     {"custom operators that return new tensors, or the arguments that they write",
                      "one whose schema returns a view of an argument, called at " + call_site(),
                      "return a new tensor, or make the view with libtorch's own operators"});
}

// Eager counts a write if the operator's kernel uses libtorch to write, or if its author registered
// a kernel that counts. Without such a kernel, capture counts one write.
bool counts_as_write(const ops::OpEntry& entry) {
  return entry.policy != ops::Policy::hidden_mutation &&
         !entry.handle.hasKernelForDispatchKey(c10::DispatchKey::ADInplaceOrView) &&
         !c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::ADInplaceOrView);
}

// The Functionalize kernel.
void writing_kernel(const c10::OperatorHandle& op, c10::DispatchKeySet /*keys*/, Stack* stack) {
  auto* tracer = Tracer::current();
  TORCH_CHECK_NOT_IMPLEMENTED(tracer != nullptr, "functionalization of ", op.operator_name(),
                              " outside of a capture by antegrad");
  const auto& entry = ops::entry_of(op);
  if (entry.policy == ops::Policy::unknown_alias) refuse_alias(entry);
  const auto first = static_cast<std::ptrdiff_t>(stack->size() - entry.args.size());
  const std::vector<c10::IValue> args(stack->begin() + first, stack->end());
  std::vector<at::Tensor> written;
  ops::for_each_written(entry, args, [&](const at::Tensor& t, size_t) { written.push_back(t); });
  refuse_overlap(entry, args, written);
  std::transform(args.begin(), args.end(), stack->begin() + first, unwrapped);
  {
    const at::AutoDispatchSkipFunctionalize below;
    tracer->record(entry.twin ? *entry.twin : entry, stack);
  }
  std::vector<at::Tensor> values;
  if (entry.twin) {
    values = stack->back().toTensorVector();
    stack->pop_back();
  }
  std::vector<c10::IValue> made(stack->begin() + first, stack->end());
  stack->resize(first);
  auto next = made.begin();
  const auto wrap = [](const at::Tensor& t) { return functionalization::to_functional_tensor(t); };
  for (const auto arg : entry.returned_arg) {
    stack->push_back(arg < 0 ? ops::map_tensors(*next++, wrap) : args[arg]);
  }
  const bool bumps = counts_as_write(entry);
  const at::AutoDispatchSkipFunctionalize below;
  for (size_t i = 0; i < written.size(); ++i) {
    functionalization::replace_(written[i], values[i]);
    functionalization::commit_update(written[i]);
    functionalization::sync(written[i]);
    if (bumps) torch::autograd::impl::bump_version(written[i]);
    if (entry.policy == ops::Policy::hidden_mutation) {
      functionalization::mark_mutation_hidden_from_autograd(written[i]);
    }
  }
}

}  // namespace

c10::IValue unwrapped(const c10::IValue& value) {
  return ops::map_tensors(value, [](const at::Tensor& t) {
    functionalization::sync(t);
    return functionalization::from_functional_tensor(t, false);
  });
}

void register_writing(const c10::OperatorHandle& op) {
  torch_compat::register_functionalize(op, &writing_kernel);
}

void register_writing_operators() {
  static const bool done = [] {
    auto& dispatcher = c10::Dispatcher::singleton();
    for (const auto& name : dispatcher.getAllOpNames()) {
      const auto op = dispatcher.findSchema(name);
      if (op && ops::needs_functionalize(*op)) register_writing(*op);
    }
    return true;
  }();
  static_cast<void>(done);
}

void call_effect(const ops::OpEntry& entry, Stack* stack) {
  if (!entry.handle.schema().returns().empty()) {
    throw CaptureError(
        entry.op.name(),
        {"an operator with effects that is one step for autograd",
         "a CompositeImplicitAutograd kernel that returns tensors, called at " + call_site(),
         "register its kernel for CPU and CUDA or CompositeExplicitAutograd"});
  }
  const auto first = static_cast<std::ptrdiff_t>(stack->size() - entry.args.size());
  std::transform(stack->begin() + first, stack->end(), stack->begin() + first, unwrapped);
  const c10::impl::ExcludeDispatchKeyGuard below(torch_compat::keys_above_backends() -
                                                 c10::DispatchKeySet(torch_compat::record_key));
  Tracer::current()->record(entry, stack);
}

}  // namespace antegrad::capture
