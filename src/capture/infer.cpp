#include "capture/infer.h"

#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/List.h>
#include <ATen/core/function_schema.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <antegrad/error.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <functional>
#include <mutex>
#include <sstream>
#include <unordered_map>

#include "capture/call_site.h"
#include "capture/stand_in.h"
#include "capture/storage.h"
#include "log/log.h"
#include "torch_compat/keys.h"

namespace antegrad::capture {
namespace {

using torch::jit::Stack;
using Replace = std::function<at::Tensor(const at::Tensor&)>;

// A copy of one argument in which every defined tensor is replaced.
c10::IValue with_tensors(const c10::IValue& value, const Replace& replace) {
  if (value.isTensor()) {
    return value.toTensor().defined() ? c10::IValue(replace(value.toTensor())) : value;
  }
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const auto& t : value.toTensorVector()) list.push_back(t.defined() ? replace(t) : t);
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor> t : value.toOptionalTensorList()) {
      list.push_back(t && t->defined() ? std::optional(replace(*t)) : t);
    }
    return list;
  }
  return value;
}

void append_specs(const c10::IValue& value, std::vector<shapes::Spec>& specs) {
  const auto append = [&](const at::Tensor& t) {
    specs.push_back(t.defined() ? shapes::spec_of(t) : shapes::undefined());
  };
  if (value.isTensor()) {
    append(value.toTensor());
  } else if (value.isTensorList()) {
    for (const auto& t : value.toTensorVector()) append(t);
  } else if (value.isNone()) {
    specs.push_back(shapes::undefined());
  }
}

// A tensor with the metadata of `like` whose storage `make(elements)` provides.
at::Tensor in_storage(const at::Tensor& like, const std::function<at::Tensor(int64_t)>& make) {
  auto tensor = make(end_in_storage(like));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(like.sizes(), like.strides(),
                                                      like.storage_offset());
  if (like.unsafeGetTensorImpl()->is_wrapped_number()) {
    tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  }
  return tensor;
}

// With `device` the kernel makes new tensors there.
std::vector<shapes::Spec> call_kernel(const ops::OpEntry& entry, at::ArrayRef<c10::IValue> args,
                                      std::optional<c10::Device> device, const Replace& replace) {
  Stack stack;
  stack.reserve(args.size());
  for (const auto& arg : args) stack.push_back(with_tensors(arg, replace));
  if (device && entry.device_arg >= 0) {
    auto& arg = stack[static_cast<size_t>(entry.device_arg)];
    const bool factory = entry.op.traits().factory;
    if (!arg.isNone() || factory) arg = *device;
  }
  entry.handle.callBoxed(stack);
  std::vector<shapes::Spec> specs;
  for (const auto& value : stack) append_specs(value, specs);
  return specs;
}

std::vector<shapes::Spec> ask_meta(const ops::OpEntry& entry, at::ArrayRef<c10::IValue> args,
                                   c10::Device device) {
  const c10::impl::ExcludeDispatchKeyGuard off(torch_compat::keys_above_backends());
  auto specs = call_kernel(entry, args, c10::Device(c10::kMeta), [](const at::Tensor& t) {
    return in_storage(
        t, [&](int64_t n) { return at::Tensor(at::detail::empty_meta({n}, t.scalar_type())); });
  });
  for (auto& spec : specs) spec.device = device;
  return specs;
}

// Keeps the default generators as they were: a kernel on zeros may draw.
class PrivateGenerators {
 public:
  explicit PrivateGenerators(c10::Device device)
      : generator_(at::globalContext().defaultGenerator(device)) {
    const std::lock_guard lock(generator_.mutex());
    state_ = generator_.get_state();
  }
  ~PrivateGenerators() {
    const std::lock_guard lock(generator_.mutex());
    generator_.set_state(state_);
  }

 private:
  at::Generator generator_;
  at::Tensor state_;
};

std::string memo_key(const ops::OpEntry& entry, at::ArrayRef<c10::IValue> args,
                     c10::Device device) {
  std::ostringstream key;
  key << entry.op.name() << '@' << device;
  const Replace describe = [&](const at::Tensor& t) {
    key << t.scalar_type() << t.device() << t.sizes() << t.strides() << t.storage_offset() << ';';
    return t;
  };
  for (const auto& arg : args) {
    key << '|';
    if (arg.isTensor() || arg.isTensorList() || arg.isOptionalTensorList()) {
      with_tensors(arg, describe);
    } else if (!arg.isGenerator()) {
      key << arg;
    }
  }
  return key.str();
}

std::vector<shapes::Spec> run_on_zeros(const ops::OpEntry& entry, at::ArrayRef<c10::IValue> args,
                                       c10::Device device, InferCounts& counts) {
  static std::mutex mutex;
  static auto* memo = new std::unordered_map<std::string, std::vector<shapes::Spec>>();
  const auto key = memo_key(entry, args, device);
  {
    const std::lock_guard lock(mutex);
    if (const auto it = memo->find(key); it != memo->end()) {
      ++counts.memoised;
      return it->second;
    }
  }
  const c10::impl::ExcludeDispatchKeyGuard off(torch_compat::keys_above_backends());
  // Not for operators that never draw: other threads may draw meanwhile, and would draw the same again.
  std::optional<PrivateGenerators> generators;
  if (entry.random || entry.custom) generators.emplace(device);
  auto specs = call_kernel(entry, args, device, [](const at::Tensor& t) {
    return in_storage(t, [&](int64_t n) { return at::zeros({n}, t.options()); });
  });
  ++counts.real_kernels;
  const std::lock_guard lock(mutex);
  memo->emplace(key, specs);
  return specs;
}

}  // namespace

std::optional<std::vector<shapes::Spec>> infer_by_shape_function(const ops::OpEntry& entry,
                                                                 at::ArrayRef<c10::IValue> args,
                                                                 InferCounts& counts) {
  if (entry.shape == nullptr) return std::nullopt;
  shapes::Call call(args);
  if (!entry.shape(call)) return std::nullopt;
  ++counts.shape_functions;
  return std::move(call.outputs());
}

std::vector<shapes::Spec> run_on_data(const ops::OpEntry& entry, at::ArrayRef<c10::IValue> args,
                                      const std::unordered_map<ValueId, at::Tensor>& data) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  return call_kernel(entry, args, std::nullopt, [&](const at::Tensor& t) {
    const auto* stand_in = as_stand_in(t);
    return stand_in == nullptr ? t : data.at(stand_in->value());
  });
}

std::vector<shapes::Spec> infer(const ops::OpEntry& entry, at::ArrayRef<c10::IValue> args,
                                c10::Device device, InferCounts& counts) {
  if (auto specs = infer_by_shape_function(entry, args, counts)) return std::move(*specs);
  ++counts.slow[entry.op.name()];
  if (entry.meta_kernel) {
    try {
      auto specs = ask_meta(entry, args, device);
      ++counts.meta_kernels;
      log(Artifact::shape, [&] { return entry.op.name() + ": Meta kernel"; });
      return specs;
    } catch (const c10::NotImplementedError&) {
      // A composite kernel that needs an operator without Meta kernel: the real one decides.
    }
  }
  if (entry.op.traits().effect) {
    throw CaptureError(entry.op.name(),
                       {"a Meta kernel for an operator with effects that returns tensors",
                        "none, and running it to learn its shapes would have the effects, called "
                        "at " +
                            call_site(),
                        "register one for the dispatch key Meta"});
  }
  log(Artifact::shape, [&] { return entry.op.name() + ": real kernel on zeros"; });
  try {
    return run_on_zeros(entry, args, device, counts);
  } catch (c10::Error& error) {
    if (entry.custom) {
      error.add_context("while antegrad ran " + entry.op.name() +
                        " on zeros to learn what it returns; a Meta kernel makes that unnecessary");
    }
    throw;
  }
}

}  // namespace antegrad::capture
