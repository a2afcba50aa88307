#include "capture/tracer.h"

#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/grad_mode.h>
#include <antegrad/error.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <utility>

#include "capture/cross_check.h"
#include "capture/data_access.h"
#include "capture/write_back.h"
#include "ops/number_arguments.h"
#include "ops/tensors_in.h"
#include "torch_compat/autograd_graph.h"
#include "torch_compat/convert.h"
#include "torch_compat/keys.h"

namespace antegrad::capture {

using ops::ArgKind;
using torch::jit::Stack;
using torch_compat::TensorMetadata;

struct Tracer::Recording {
  Node node;
  std::optional<c10::Device> device;  // where the kernel would run
  bool device_is_scalar = false;      // only 0-dim CPU tensors so far
  bool any_stand_in = false;
  bool any_meta = false;
  std::vector<ValueId> tokens_out;
};

Tracer::Tracer(const SharedMemories& shared) : shared_(shared) {
  life_->tracer.store(this, std::memory_order_release);
}
Tracer::~Tracer() {
  reshaped_views.clear();
  exchanged_.clear();
  for (auto& root : roots_) {
    root.wrapper = at::Tensor();
    root.edge = {};
    root.direct_edge = {};
  }
  for (const auto& writer : writers_) torch_compat::release_saved(writer);
  life_->tracer.store(nullptr, std::memory_order_release);
}

void Tracer::note_written(const at::Tensor& tensor) {
  if (tensor.requires_grad()) writers_.push_back(torch_compat::weak_function_of(tensor));
}

Tracer* Tracer::current() { return static_cast<Tracer*>(torch_compat::carried()); }

ValueId Tracer::add_value(const TensorMetadata& metadata, StorageId storage) {
  const auto id = graph.add_tensor(metadata.to_meta());
  if (storage.valid()) {
    graph.value(id).storage = storage;
    graph.value(id).alias_class = graph.value(ValueId(storage)).alias_class;
  }
  return id;
}

at::Tensor Tracer::wrap(const TensorMetadata& metadata, ValueId value) {
  const c10::impl::ExcludeDispatchKeyGuard off(torch_compat::capture_keys);
  auto wrapper = at::functionalization::impl::to_functional_tensor(
      at::detail::make_tensor<StandIn>(metadata, value, life_));
  data.forbid(wrapper);
  return wrapper;
}

std::pair<at::Tensor, ValueId> Tracer::make_input(const TensorMetadata& metadata) {
  const auto value = add_value(metadata, -1);
  return {wrap(metadata, value), value};
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
    if (const auto number = symbolic_number_behind(tensor)) return take_number(*number, recording);
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
  // A number that libtorch wrapped in a tensor (index_put_ with a scalar) becomes a constant of the
  // program.
  auto& root = add_root(tensor.clone(), Source{Source::Kind::constant, -1, node.op.name()});
  node.inputs.push_back(root.value);
  node.args.emplace_back(attr::Input{});
}

void Tracer::take_number(const SymbolicNumber& number, Recording& recording) {
  recording.node.inputs.push_back(roots_[lift_number(number)].value);
  recording.node.args.emplace_back(attr::Input{});
}

void Tracer::take_argument(const c10::IValue& value, ArgKind kind, Recording& recording) {
  auto& node = recording.node;
  // A list is one argument: its elements go through take_tensor, and their Attrs are folded into
  // one.
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
  if (value.isNone() || (kind == ArgKind::tensor && !value.toTensor().defined())) {
    node.args.emplace_back(attr::None{});
  } else if (kind == ArgKind::tensor) {
    take_tensor(value.toTensor(), recording);
  } else if (kind == ArgKind::tensors) {
    take_list(value.toTensorVector());
  } else if (kind == ArgKind::optional_tensors) {
    take_list(value.toOptionalTensorVector());
  } else {
    node.args.push_back(ops::to_attr(value, kind, graph, tables));
  }
}

void Tracer::thread_tokens(const ops::OpEntry& entry, at::ArrayRef<c10::IValue> args,
                           Recording& recording) {
  const auto thread = [&](std::pair<ValueId, ValueId>& chain) {
    auto& [first, last] = chain;
    if (first == kNoValue) first = last = graph.add_token();
    recording.node.inputs.push_back(last);
    recording.node.tokens += 1;
    recording.tokens_out.push_back(last = graph.add_token());
  };
  if (entry.op.traits().effect) {
    thread(effect_tokens);
    data_questions.acted |= !entry.op.traits().question;
  }
  if (!entry.random || recording.node.draws_nothing()) return;
  seed.require_unchanged();  // now, since the callable may restore the seed later
  if (phase == Phase::backward && at::GradMode::is_enabled()) {
    throw CaptureError(
        entry.op.name(),
        {"a forward pass that is not recomputed in the backward, or draws nothing there",
         "one that draws there: a checkpoint gives generators the state that they had, which a "
         "capture does not see",
         "draw outside of the checkpoint"});
  }
  at::Generator generator;
  if (entry.generator_arg >= 0) {
    const auto& arg = args[entry.generator_arg];
    if (!arg.isNone()) generator = arg.toGenerator();
  }
  const auto index = ops::generator_index(generator, *recording.device, graph, tables);
  if (std::cmp_less_equal(generator_tokens.size(), index)) {
    generator_tokens.resize(index + 1, {kNoValue, kNoValue});
  }
  thread(generator_tokens[index]);
}

c10::IValue Tracer::add_output(const shapes::Spec& spec, StorageId storage, Recording& recording) {
  if (spec.integer.has_value() || !spec.defined) {
    // An integer that depends only on metadata is a constant of the program.
    recording.node.outputs.push_back(kNoValue);
    return spec.integer ? c10::IValue(*spec.integer) : c10::IValue(at::Tensor());
  }
  const auto value = add_value(spec, storage);
  recording.node.outputs.push_back(value);
  return at::detail::make_tensor<StandIn>(spec, value, life_);
}

namespace {

// Pushes outputs in the form of the schema's returns: tensors, integers, and at most one list. For
// a twin, returns that are arguments are left out.
void push_returns(const ops::OpEntry& entry, std::vector<c10::IValue> outputs, Stack* stack) {
  const auto& returns = entry.handle.schema().returns();
  std::vector<const c10::Argument*> made;
  for (size_t r = 0; r < returns.size(); ++r) {
    if (!entry.is_twin || entry.returned_arg[r] < 0) made.push_back(&returns[r]);
  }
  size_t next = 0;
  for (size_t r = 0; r < made.size(); ++r) {
    const auto kind = made[r]->real_type()->kind();
    if (kind != c10::TypeKind::ListType) {
      auto& output = outputs[next++];
      const bool none =
          kind == c10::TypeKind::OptionalType && output.isTensor() && !output.toTensor().defined();
      stack->emplace_back(none ? c10::IValue() : std::move(output));
      continue;
    }
    c10::List<at::Tensor> list;
    for (auto left = outputs.size() - next - (made.size() - r - 1); left > 0; --left) {
      list.push_back(std::move(outputs[next++]).toTensor());
    }
    stack->emplace_back(std::move(list));
  }
}

void require_same_place(const ops::OpEntry& entry, const shapes::Spec& returned,
                        const at::Tensor& written) {
  if (at::IntArrayRef(returned.sizes).equals(written.sizes()) &&
      at::IntArrayRef(returned.strides).equals(written.strides())) {
    return;
  }
  throw MutationError(entry.op.name(), {"written arguments that keep their sizes and strides",
                                        "an operator that resizes one, called at " + call_site(),
                                        "allocate the tensor with its final size before the call"});
}

// Removes outputs that are arguments from the results of an operator that writes.
std::vector<shapes::Spec> newly_made(const ops::OpEntry& entry, at::ArrayRef<c10::IValue> args,
                                     std::vector<shapes::Spec> specs) {
  std::vector<shapes::Spec> made;
  const auto& returns = entry.handle.schema().returns();
  size_t next = 0;
  for (size_t r = 0; r < returns.size(); ++r) {
    const auto arg = entry.returned_arg[r];
    if (arg >= 0) {
      ops::for_each_tensor(args[arg], [&](const at::Tensor& written) {
        require_same_place(entry, specs[next++], written);
      });
      continue;
    }
    // A list of new tensors takes the outputs that the other returns leave.
    size_t mine = 1;
    if (returns[r].real_type()->kind() == c10::TypeKind::ListType) {
      size_t others = 0;
      for (size_t other = 0; other < returns.size(); ++other) {
        if (other == r) continue;
        if (entry.returned_arg[other] < 0) {
          ++others;
        } else {
          ops::for_each_tensor(args[entry.returned_arg[other]],
                               [&](const at::Tensor&) { ++others; });
        }
      }
      mine = specs.size() - others;
    }
    for (; mine > 0; --mine) made.push_back(std::move(specs[next++]));
  }
  return made;
}

// A flat list of outputs does not show which elements belong to which of two lists.
void require_one_list(const ops::OpEntry& entry) {
  size_t lists = 0;
  for (const auto& ret : entry.handle.schema().returns()) {
    lists += ret.real_type()->kind() == c10::TypeKind::ListType;
  }
  if (lists <= 1) return;
  throw CaptureError(entry.op.name(),
                     {"operators that return at most one list",
                      "one that returns " + std::to_string(lists) + ", called at " + call_site(),
                      "return one list"});
}

}  // namespace

std::vector<shapes::Spec> Tracer::find_outputs(const ops::OpEntry& entry,
                                               at::ArrayRef<c10::IValue> args,
                                               const Recording& recording) {
  require_one_list(entry);
  const auto checked = [&](Inferred found) {
    if (cross_check_shapes != CrossCheckShapes::off) {
      cross_check(cross_check_shapes, entry, args, *recording.device, found, counts);
    }
    return std::move(found.specs);
  };
  const bool dynamic = entry.policy == ops::Policy::dynamic_outputs;
  if (dynamic || entry.policy == ops::Policy::data_dependent) {
    if (auto specs = infer_by_shape_function(entry, args, counts)) {
      return checked({std::move(*specs), ShapeSource::shape_function});
    }
    if (dynamic) return assume_outputs(*this, entry, args, recording.node.inputs);
    refuse_question(entry.op.info().base_name, "to return something else than tensors");
  }
  const auto& returned = entry.returned_arg;
  const bool nothing_new =
      entry.is_twin && (!entry.meta_kernel || entry.op.traits().collective) &&
      std::all_of(returned.begin(), returned.end(), [](int arg) { return arg >= 0; });
  if (nothing_new || entry.handle.schema().returns().empty()) return {};
  if (entry.op.traits().collective) {  // nothing of it may run now
    auto specs = infer_by_shape_function(entry, args, counts);
    if (!specs) {
      throw CaptureError(entry.op.name(), {"a collective of tensors whose results have known sizes",
                                           "other arguments, at " + call_site(),
                                           "give it contiguous tensors with a first dimension"});
    }
    return std::move(*specs);
  }
  auto specs = checked(infer(entry, args, *recording.device, counts));
  return entry.is_twin ? newly_made(entry, args, std::move(specs)) : std::move(specs);
}

void Tracer::look_for_line(const Node& node) {
  if (node.phase == Phase::forward) {
    if (node.id == locate) located = call_site();
    sites_.push_back({torch_compat::next_sequence_number(), stack_frames()});
    return;
  }
  if (node.id != locate) return;
  // Autograd creates its node right before the operator's kernel runs.
  const auto evaluated = torch_compat::evaluated_sequence_number();
  if (!evaluated) return;
  const auto site = std::find_if(sites_.begin(), sites_.end(),
                                 [&](const Site& s) { return s.sequence_number > *evaluated; });
  if (site != sites_.end()) located = call_site(site->frames);
}

void Tracer::record(const ops::OpEntry& entry, Stack* stack) {
  const std::lock_guard lock(mutex_);
  if (writing != nullptr) {
    if (const auto* physical = lazy_bits ? written_back_as(*writing, entry, *stack) : nullptr) {
      record(*physical, stack);
      return;
    }
    refuse_inexact_write_back(*writing, entry, *stack);
    round_factor(entry, *stack);
  }
  if (!without_data_.storages.empty() && overwrite(entry, stack)) return;
  const auto count = entry.args.size();
  const auto args = at::ArrayRef<c10::IValue>(*stack).slice(stack->size() - count);
  Recording recording;
  recording.node.op = entry.op;
  recording.node.phase = phase;
  if (block.number >= 0 && phase == Phase::forward) {
    recording.node.block = block.number;
    recording.node.recompute = block.policy != nullptr && *block.policy
                                   ? (*block.policy)(entry.op.name())
                                   : Recompute::must_recompute;
  } else if (phase == Phase::forward) {
    recording.node.recompute = tag;
  }
  recording.node.args.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const auto number = symbolic_number(args[i]);
    if (number && ops::may_be_number(entry, i)) {
      take_number(*number, recording);
    } else {
      take_argument(args[i], entry.args[i], recording);
    }
  }
  if (!without_data_.storages.empty()) note_reads(recording.node);

  const auto* device_arg = entry.device_arg < 0 ? nullptr : &args[entry.device_arg];
  const bool to_meta =
      device_arg != nullptr && device_arg->isDevice() && device_arg->toDevice().is_meta();
  if (!recording.any_stand_in && (recording.any_meta || to_meta)) {
    // Functionalisation checks in-place operators on meta tensors. This is not part of the program.
    const c10::impl::ExcludeDispatchKeyGuard off(torch_compat::keys_above_backends());
    const bool returns_written =
        entry.writes.size() == 1 && entry.returned_arg.size() == 1 && entry.returned_arg[0] >= 0;
    const auto written = returns_written ? args[entry.writes[0]] : c10::IValue();
    const auto values = with_values(args, /*decides=*/false);
    std::copy(values.begin(), values.end(), stack->end() - static_cast<std::ptrdiff_t>(count));
    // Without a check, an in-place operator returns its written arguments, or nothing.
    const auto unchecked = [&] {
      if (!returns_written && !entry.handle.schema().returns().empty()) throw;
      torch::jit::drop(*stack, count);
      if (returns_written) stack->emplace_back(written);
    };
    try {
      entry.handle.callBoxed(stack);
    } catch (const c10::NotImplementedError&) {
      unchecked();  // no meta kernel
    } catch (const c10::IndexError&) {
      // index_add_ fails in the check if there are no elements. Invalid dimensions are found when
      // it is recorded.
      unchecked();
    }
    return;
  }
  if (device_arg != nullptr && device_arg->isDevice()) {
    recording.device = torch_compat::with_index(device_arg->toDevice());
    // The results have an index. The node keeps what the callable said: its kernel creates them on
    // the device that is current then, as in eager mode.
    torch::jit::peek(*stack, entry.device_arg, count) = *recording.device;
  }
  if (!recording.device) recording.device = c10::Device(c10::kCPU);

  const auto specs = find_outputs(entry, args, recording);
  thread_tokens(entry, args, recording);
  const auto storage = entry.op.traits().view && !recording.node.inputs.empty()
                           ? graph.value(recording.node.inputs[0]).storage
                           : StorageId();
  std::vector<c10::IValue> outputs;
  outputs.reserve(specs.size());
  for (const auto& spec : specs) outputs.push_back(add_output(spec, storage, recording));
  c10::List<at::Tensor> new_values;
  if (entry.is_twin) {
    ops::for_each_written(entry, args, [&](const at::Tensor& written, size_t) {
      shapes::Spec spec{TensorMetadata::of(written)};
      spec.offset = 0;
      new_values.push_back(add_output(spec, -1, recording).toTensor());
    });
  }
  auto& node = recording.node;
  node.outputs.insert(node.outputs.end(), recording.tokens_out.begin(), recording.tokens_out.end());
  node.id = static_cast<int32_t>(graph.nodes.size());
  if (locate >= 0) look_for_line(node);
  torch::jit::drop(*stack, count);
  push_returns(entry, std::move(outputs), stack);
  if (entry.is_twin) stack->emplace_back(std::move(new_values));
  graph.nodes.push_back(std::move(node));
}

}  // namespace antegrad::capture
