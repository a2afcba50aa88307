#include "capture/kernel_call.h"

#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/function_schema.h>
#include <ATen/ops/full.h>
#include <antegrad/error.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <functional>
#include <mutex>
#include <optional>
#include <sstream>
#include <unordered_map>

#include "capture/call_site.h"
#include "capture/stand_in.h"
#include "capture/storage.h"
#include "ops/tensors_in.h"
#include "ops/trial_data.h"
#include "torch_compat/generator_state.h"
#include "torch_compat/keys.h"
#include "torch_compat/tensor_state.h"

namespace antegrad::capture {
namespace {

using torch::jit::Stack;
using Replace = std::function<at::Tensor(const at::Tensor&)>;

// A tensor with the metadata of `like`, in a storage provided by `make(elements)`.
at::Tensor in_storage(const at::Tensor& like, const std::function<at::Tensor(int64_t)>& make) {
  auto tensor = make(end_in_storage(like));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(like.sizes(), like.strides(),
                                                      like.storage_offset());
  if (like.unsafeGetTensorImpl()->is_wrapped_number()) {
    tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  }
  return tensor;
}

[[noreturn]] void refuse_kind(const ops::OpEntry& entry, const char* found) {
  throw TensorKindError(entry.op.name(),
                        {"operators that return strided tensors",
                         std::string(found) + " from " + entry.op.name() + ", at " + call_site(),
                         "keep it outside of the compiled region, or put it into ag::opaque"});
}

// Stand-ins are strided. A stand-in for another layout would mislead the following operators.
void require_strided(const ops::OpEntry& entry, const at::Tensor& returned) {
  if (!returned.defined()) return;
  if (const char* found = torch_compat::why_not_strided(returned)) refuse_kind(entry, found);
}

// With `device`, the kernel creates new tensors there.
std::vector<shapes::Spec> call_kernel(const ops::OpEntry& entry, at::ArrayRef<c10::IValue> args,
                                      std::optional<c10::Device> device, const Replace& replace) {
  Stack stack;
  stack.reserve(args.size());
  for (const auto& arg : args) stack.push_back(ops::map_tensors(arg, replace));
  if (device && entry.device_arg >= 0) {
    auto& arg = stack[entry.device_arg];
    const bool factory = entry.op.traits().factory;
    if (!arg.isNone() || factory) arg = *device;
  }
  if (entry.op.traits().nested) refuse_kind(entry, "a nested tensor");
  entry.handle.callBoxed(stack);
  for (const auto& value : stack) {
    ops::for_each_tensor(value, [&](const at::Tensor& t) { require_strided(entry, t); });
  }
  return shapes::specs_of(stack);
}

// Restores the default generators afterwards: a kernel on zeros may draw.
class PrivateGenerators {
 public:
  explicit PrivateGenerators(c10::Device device)
      : generator_(at::globalContext().defaultGenerator(device)) {
    state_ = torch_compat::state_of(generator_);
  }
  ~PrivateGenerators() { torch_compat::put_back(generator_, state_); }

 private:
  at::Generator generator_;
  at::Tensor state_;
};

void write_tensor(std::ostream& out, const at::Tensor& t) {
  if (!t.defined()) {
    out << "None";
    return;
  }
  out << to_text(torch_compat::TensorMetadata::of(t));
  if (t.unsafeGetTensorImpl()->is_wrapped_number()) out << " (a number)";
}

template <class List>
void write_list(std::ostream& out, const List& list) {
  const char* separator = "{";
  for (const auto& t : list) {
    out << separator;
    write_tensor(out, std::optional<at::Tensor>(t).value_or(at::Tensor()));
    separator = ", ";
  }
  out << (list.empty() ? "{}" : "}");
}

std::string memo_key(const ops::OpEntry& entry, at::ArrayRef<c10::IValue> args,
                     c10::Device device) {
  std::ostringstream key;
  key << entry.op.name() << '@' << device << c10::get_default_dtype_as_scalartype()
      << arguments_text(entry, args);
  return key.str();
}

// The arguments with a private generator in the state of the caller's.
std::vector<c10::IValue> with_own_generator(const ops::OpEntry& entry,
                                            at::ArrayRef<c10::IValue> args) {
  auto own = args.vec();
  if (entry.generator_arg < 0) return own;
  auto& arg = own[entry.generator_arg];
  if (arg.isNone()) return own;
  auto given = arg.toGenerator();
  const std::lock_guard lock(given.mutex());
  arg = given.clone();
  return own;
}

}  // namespace

std::string arguments_text(const ops::OpEntry& entry, at::ArrayRef<c10::IValue> args) {
  std::ostringstream out;
  for (size_t i = 0; i < args.size(); ++i) {
    if (i > 0) out << ", ";
    const auto& arg = args[i];
    if (arg.isTensor()) {
      write_tensor(out, arg.toTensor());
    } else if (arg.isTensorList()) {
      write_list(out, arg.toTensorVector());
    } else if (arg.isOptionalTensorList()) {
      write_list(out, arg.toOptionalTensorVector());
    } else if (arg.isNone() || entry.args[i] == ops::ArgKind::generator) {
      out << "None";
    } else {
      out << arg;
    }
  }
  return out.str();
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

std::vector<shapes::Spec> ask_kernel(const ops::OpEntry& entry, at::ArrayRef<c10::IValue> args,
                                     c10::Device device, TrialData data, bool& memoised) {
  static std::mutex mutex;
  static auto* memo = new std::unordered_map<std::string, std::vector<shapes::Spec>>();
  const auto key = memo_key(entry, args, device);
  {
    const std::lock_guard lock(mutex);
    const auto it = memo->find(key);
    memoised = it != memo->end();
    if (memoised) return it->second;
  }
  const c10::impl::ExcludeDispatchKeyGuard off(torch_compat::keys_above_backends());
  // Only for operators that draw: other threads may draw meanwhile and would repeat the same
  // numbers.
  std::optional<PrivateGenerators> generators;
  if (entry.random || entry.custom) generators.emplace(device);
  auto specs =
      call_kernel(entry, with_own_generator(entry, args), device, [&](const at::Tensor& t) {
        const auto fill = ops::trial_fill(data, t.scalar_type());
        auto made = in_storage(t, [&](int64_t n) { return at::full({n}, fill, t.options()); });
        ops::finish_trial(data, made);
        return made;
      });
  const std::lock_guard lock(mutex);
  memo->emplace(key, specs);
  return specs;
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

}  // namespace antegrad::capture
