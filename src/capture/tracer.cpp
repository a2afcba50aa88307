#include "capture/tracer.h"

#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/core/List.h>
#include <ATen/core/function_schema.h>
#include <antegrad/error.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "torch_compat/convert.h"
#include "torch_compat/keys.h"

namespace antegrad::capture {

using ops::ArgKind;
using torch::jit::Stack;

struct Tracer::Recording {
  Node node;
  std::optional<c10::Device> device;  // where the kernel would run
  bool device_is_scalar = false;      // so far only a 0-dim CPU tensor spoke
  bool any_stand_in = false;
  bool any_meta = false;
  ValueId token_out = kNoValue;
};

Tracer::Tracer(const SharedMemories& shared) : shared_(shared) {
  life_->tracer.store(this, std::memory_order_release);
}
Tracer::~Tracer() { life_->tracer.store(nullptr, std::memory_order_release); }

Tracer* Tracer::current() { return static_cast<Tracer*>(torch_compat::carried()); }

ValueId Tracer::add_value(const shapes::Spec& spec, StorageId storage) {
  TensorMeta meta;
  meta.dtype = torch_compat::to_dtype(spec.dtype);
  meta.device = torch_compat::to_device(spec.device);
  meta.sizes = torch_compat::to_shape(spec.sizes);
  meta.strides = torch_compat::to_shape(spec.strides);
  meta.offset = spec.offset;
  const auto id = graph.add_tensor(std::move(meta));
  if (storage >= 0) {
    graph.value(id).storage = storage;
    graph.value(id).alias_class = graph.value(storage).alias_class;
  }
  return id;
}

at::Tensor Tracer::wrap(const shapes::Spec& spec, ValueId value) {
  const c10::impl::ExcludeDispatchKeyGuard off(torch_compat::capture_keys);
  return at::functionalization::impl::to_functional_tensor(
      at::detail::make_tensor<StandIn>(spec, value, life_));
}

std::pair<at::Tensor, ValueId> Tracer::make_input(const shapes::Spec& spec) {
  const auto value = add_value(spec, -1);
  return {wrap(spec, value), value};
}

void Tracer::take_tensor(const at::Tensor& tensor, Recording& recording) {
  const auto speak_for_device = [&](c10::Device device, bool scalar) {
    if (!recording.device || (recording.device_is_scalar && !scalar)) {
      recording.device = device;
      recording.device_is_scalar = scalar;
    }
  };
  auto& node = recording.node;
  if (const auto* stand_in = as_stand_in(tensor)) {
    if (stand_in->tracer() != this) {
      throw EscapeError(
          node.op.name(),
          {"tensors of this call", "a stand-in that outlived its capture, used at " + call_site(),
           "do not keep tensors made inside a compiled callable"});
    }
    recording.any_stand_in = true;
    speak_for_device(tensor.device(), tensor.dim() == 0 && tensor.is_cpu());
    node.inputs.push_back(stand_in->value());
    node.args.emplace_back(attr::Input{});
    return;
  }
  if (tensor.is_meta()) {
    recording.any_meta = true;
    node.args.emplace_back(attr::None{});
    return;
  }
  const c10::impl::ExcludeDispatchKeyGuard off(torch_compat::keys_above_backends());
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
    node.args.emplace_back(attr::WrappedNumber{ops::from_scalar(tensor.item()),
                                               torch_compat::to_dtype(tensor.scalar_type())});
    return;
  }
  if (tensor.dim() != 0 || !tensor.is_cpu()) {
    throw CaptureError(node.op.name(),
                       {"tensors that the callable received, holds or computed",
                        "a tensor that appeared below autograd, used at " + call_site(),
                        "wrap the code that makes it with ag::constant or pass it as an argument"});
  }
  // A number that libtorch put into a tensor (index_put_ with a scalar): its value is part of the program.
  auto& root = add_root(tensor.clone(), Source{Source::Kind::constant, -1, node.op.name()});
  node.inputs.push_back(root.value);
  node.args.emplace_back(attr::Input{});
}

void Tracer::take_argument(const c10::IValue& value, ArgKind kind, Recording& recording) {
  auto& node = recording.node;
  // A list is one argument: its elements go through take_tensor, whose Attrs are folded into one.
  const auto take_list = [&](const auto& list) {
    attr::InputList folded;
    const auto first = node.args.size();
    for (const auto& element : list) {
      const std::optional<at::Tensor> t = element;
      folded.present.push_back(t && t->defined());
      if (folded.present.back()) take_tensor(*t, recording);
    }
    for (auto i = first; i < node.args.size(); ++i) {
      AG_CHECK(node.args[i].template is<attr::Input>() || recording.any_meta, "number in a list");
    }
    node.args.resize(first);
    node.args.emplace_back(std::move(folded));
  };
  switch (kind) {
    case ArgKind::tensor:
      if (value.isNone() || !value.toTensor().defined()) {
        node.args.emplace_back(attr::None{});
      } else {
        take_tensor(value.toTensor(), recording);
      }
      return;
    case ArgKind::tensors: take_list(value.toTensorVector()); return;
    case ArgKind::optional_tensors:
      if (value.isNone()) {
        node.args.emplace_back(attr::None{});
      } else {
        take_list(value.toOptionalTensorVector());
      }
      return;
    default: node.args.push_back(ops::to_attr(value, kind, graph, tables)); return;
  }
}

void Tracer::thread_tokens(const ops::OpEntry& entry, at::ArrayRef<c10::IValue> args,
                           Recording& recording) {
  if (!entry.random) return;
  at::Generator generator;
  if (entry.generator_arg >= 0) {
    const auto& arg = args[static_cast<size_t>(entry.generator_arg)];
    if (!arg.isNone()) generator = arg.toGenerator();
  }
  const auto index =
      static_cast<size_t>(ops::generator_index(generator, *recording.device, graph, tables));
  if (generator_tokens.size() <= index) {
    generator_tokens.resize(index + 1, {kNoValue, kNoValue});
  }
  auto& [first, last] = generator_tokens[index];
  if (first == kNoValue) first = last = graph.add_token();
  recording.node.inputs.push_back(last);
  recording.node.tokens = 1;
  recording.token_out = last = graph.add_token();
}

c10::IValue Tracer::add_output(const shapes::Spec& spec, StorageId storage, Recording& recording) {
  if (spec.integer.has_value() || !spec.defined) {
    // An integer that follows from metadata is a constant of the program.
    recording.node.outputs.push_back(kNoValue);
    return spec.integer ? c10::IValue(*spec.integer) : c10::IValue(at::Tensor());
  }
  const auto value = add_value(spec, storage);
  recording.node.outputs.push_back(value);
  return at::detail::make_tensor<StandIn>(spec, value, life_);
}

namespace {

// Pushes outputs in the form of the schema's returns: tensors, integers, and at most one list.
void push_returns(const c10::FunctionSchema& schema, std::vector<c10::IValue> outputs,
                  Stack* stack) {
  const auto& returns = schema.returns();
  size_t next = 0;
  for (size_t r = 0; r < returns.size(); ++r) {
    if (returns[r].real_type()->kind() != c10::TypeKind::ListType) {
      stack->emplace_back(std::move(outputs[next++]));
      continue;
    }
    c10::List<at::Tensor> list;
    for (auto left = outputs.size() - next - (returns.size() - r - 1); left > 0; --left) {
      list.push_back(std::move(outputs[next++]).toTensor());
    }
    stack->emplace_back(std::move(list));
  }
}

[[noreturn]] void refuse(const ops::OpEntry& entry) {
  const auto& name = entry.op.info().base_name;
  if (entry.policy == ops::Policy::hidden_mutation) {
    throw MutationError(
        name, {"operators that declare what they write",
               name + ", which writes running statistics silently, called at " + call_site(),
               "use the native batch normalisation"});
  }
  throw DataDependentError(name,
                           {"a computation whose shapes and branches do not depend on data",
                            name + ", which needs the data of a tensor, called at " + call_site(),
                            "move it out of the compiled callable, or pass its result as an "
                            "argument"});
}

}  // namespace

void Tracer::record(const ops::OpEntry& entry, Stack* stack) {
  const std::lock_guard lock(mutex_);
  const auto count = entry.args.size();
  const auto args = at::ArrayRef<c10::IValue>(*stack).slice(stack->size() - count);
  Recording recording;
  recording.node.op = entry.op;
  recording.node.phase = phase;
  recording.node.args.reserve(count);
  for (size_t i = 0; i < count; ++i) take_argument(args[i], entry.args[i], recording);

  const auto* device_arg =
      entry.device_arg < 0 ? nullptr : &args[static_cast<size_t>(entry.device_arg)];
  const bool to_meta =
      device_arg != nullptr && device_arg->isDevice() && device_arg->toDevice().is_meta();
  if (!recording.any_stand_in && (recording.any_meta || to_meta)) {
    // Functionalisation checks in-place operators on meta tensors: not part of the program.
    const c10::impl::ExcludeDispatchKeyGuard off(torch_compat::keys_above_backends());
    const auto saved =
        entry.written_arg >= 0 ? args[static_cast<size_t>(entry.written_arg)] : c10::IValue();
    try {
      entry.handle.callBoxed(stack);
    } catch (const c10::NotImplementedError&) {
      // No meta kernel, nothing checked: an in-place operator returns what it writes.
      if (entry.written_arg < 0) throw;
      stack->emplace_back(saved);
    }
    return;
  }
  constexpr size_t kTraining = 5;  // argument of all batch normalisations
  if (entry.policy == ops::Policy::hidden_mutation && args[kTraining].toBool()) refuse(entry);
  if (device_arg != nullptr && device_arg->isDevice()) recording.device = device_arg->toDevice();
  if (!recording.device) recording.device = c10::Device(c10::kCPU);

  const bool invents = entry.policy == ops::Policy::data_dependent;
  const auto specs = invents ? infer_by_shape_function(entry, args, counts)
                             : std::optional(infer(entry, args, *recording.device, counts));
  if (!specs) refuse(entry);
  thread_tokens(entry, args, recording);
  const auto storage = entry.op.traits().view && !recording.node.inputs.empty()
                           ? graph.value(recording.node.inputs[0]).storage
                           : -1;
  std::vector<c10::IValue> outputs;
  outputs.reserve(specs->size());
  for (const auto& spec : *specs) outputs.push_back(add_output(spec, storage, recording));
  auto& node = recording.node;
  if (node.tokens > 0) node.outputs.push_back(recording.token_out);
  node.id = static_cast<int32_t>(graph.nodes.size());
  torch::jit::drop(*stack, count);
  push_returns(entry.handle.schema(), std::move(outputs), stack);
  graph.nodes.push_back(std::move(node));
}

}  // namespace antegrad::capture
