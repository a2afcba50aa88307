#include "capture/resizes.h"

#include <ATen/FunctionalStorageImpl.h>
#include <ATen/FunctionalTensorWrapper.h>
#include <antegrad/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "capture/call_site.h"
#include "capture/tracer.h"
#include "torch_compat/tensor_metadata.h"
#include "torch_compat/tensor_state.h"

namespace antegrad::capture {
namespace {

using FunctionalStorage = at::functionalization::FunctionalStorageImpl;
using torch::jit::Stack;
using torch_compat::TensorMetadata;

constexpr const char* kFill =
    "fill all of it first: resize_storage_() from 0 bytes, then copy_(), _foreach_copy_() or out=";

FunctionalStorage& functional_storage(const at::Tensor& wrapper) {
  return static_cast<FunctionalStorage&>(
      *wrapper.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl());
}

// A copy in memory of its own has these sizes and strides as well.
bool copies_as_it_is(const at::Tensor& target, const at::Tensor& source) {
  return target.scalar_type() == source.scalar_type() && target.device() == source.device() &&
         target.sizes() == source.sizes() && target.strides() == source.strides() &&
         torch_compat::is_dense(source.sizes(), source.strides());
}

// Whether a call writes a view's new value back into memory of which the view shows all elements.
bool replaces_all(const ops::OpEntry& entry, at::ArrayRef<c10::IValue> args) {
  constexpr std::string_view kScatters[] = {"aten::as_strided_scatter", "aten::slice_scatter",
                                            "aten::select_scatter"};
  const auto& name = entry.op.info().base_name;
  if (std::ranges::find(kScatters, name) == std::end(kScatters)) return false;
  if (args[0].toTensor().numel() != args[1].toTensor().numel()) return false;
  return name != kScatters[0] ||
         torch_compat::is_dense(args[2].toIntVector(), args[3].toIntVector());
}

[[noreturn]] void refuse_resize(const std::string& expected, const std::string& found,
                                const std::string& remedy) {
  throw MutationError("resize_storage_", {expected, found, remedy});
}

[[noreturn]] void refuse_freed_write() {
  refuse_resize("writes to tensors whose storage has memory",
                "a write to one that was freed, or that had no memory when the call began", kFill);
}

}  // namespace

// Wrappers show the size of a storage without memory, for code that asks for it.
void Tracer::set_bytes(Root& root, int64_t bytes) {
  root.bytes = bytes;
  functional_storage(root.wrapper).set_nbytes(static_cast<size_t>(bytes));
}

bool Tracer::began_empty(const Root& root) {
  return root.base < 0 && root.first_bytes == 0 && root.real.has_storage() &&
         root.real.numel() != 0;
}

void Tracer::note_size(Root& root) {
  const auto* storage = storage_of(root.real);
  if (storage == nullptr) return;
  std::optional<int64_t> at_call;
  if (bytes_at_call) at_call = bytes_at_call(storage);
  root.first_bytes = root.bytes = at_call.value_or(static_cast<int64_t>(storage->nbytes()));
  if (!began_empty(root)) return;
  set_bytes(root, 0);
  without_data_.storages.insert(graph.value(root.value).storage);
}

bool Tracer::is_filled(const Root& root) {
  return graph.value(value_of(root.wrapper)).storage != graph.value(root.value).storage;
}

// The value of the forward cannot be computed again: the backward finds other data, or none.
void Tracer::save_readers(const Root& root) {
  const auto storage = graph.value(root.value).storage;
  for (auto& node : graph.nodes) {
    if (node.phase == Phase::backward || node.block >= 0 || node.op.traits().view) continue;
    if (node.recompute != Recompute::as_decided) continue;
    const bool reads = std::ranges::any_of(node.inputs, [&](ValueId id) {
      return graph.is_tensor(id) && graph.value(id).storage == storage;
    });
    if (reads) node.recompute = Recompute::must_save;
  }
}

void Tracer::resize(const at::Tensor& wrapper, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto* storage = wrapper.defined() ? storage_of(wrapper) : nullptr;
  const auto found = std::ranges::find_if(roots_, [&](const Root& root) {
    return root.base < 0 && storage != nullptr && storage_of(root.wrapper) == storage;
  });
  if (found == roots_.end() || found->source.kind == Source::Kind::constant) {
    refuse_resize("storages of arguments, parameters and tensors that the callable holds",
                  "that of a tensor which the callable made, resized at " + call_site(),
                  "let the tensor go instead, or make a new one");
  }
  auto& root = *found;
  if (root.bytes == bytes) return;
  if (const auto why = why_not_resize(root.real, root.bytes, bytes); !why.empty()) {
    refuse_resize(kResizesAllowed, why + ", at " + call_site(),
                  "free it first, or make a new tensor");
  }
  if (root.bytes == 0 && is_filled(root)) refuse_freed_write();
  auto& memory = functional_storage(root.wrapper);
  if (bytes == 0) {
    if (phase == Phase::forward) save_readers(root);
    without_data_.storages.insert(graph.value(root.value).storage);
    const auto metadata = TensorMetadata::of(graph.value(root.value).meta);
    memory.add_update(at::detail::make_tensor<StandIn>(metadata, root.value, life_), {});
  }
  memory.mark_mutation();
  ++root.resizes;
  set_bytes(root, bytes);
}

bool Tracer::lacks_data(const at::Tensor& wrapper) {
  const std::lock_guard lock(mutex_);
  if (without_data_.storages.empty() || inside_wrapper(wrapper) == nullptr) return false;
  return without_data_.storages.contains(graph.value(value_of(wrapper)).storage);
}

// The value of input 0 is not an argument of the node then. Returns whether it was recorded.
bool Tracer::overwrite(const ops::OpEntry& entry, Stack* stack) {
  const auto count = entry.args.size();
  if (entry.is_twin || count == 0) return false;
  const auto args = torch::jit::last(*stack, count);
  const auto* stand_in = args[0].isTensor() ? as_stand_in(args[0].toTensor()) : nullptr;
  if (stand_in == nullptr || stand_in->tracer() != this) return false;
  if (!without_data_.storages.contains(graph.value(stand_in->value()).storage)) return false;
  const bool writes_back = replaces_all(entry, args);
  if (!entry.op.traits().overwrites && !writes_back) return false;
  const auto like = args[0].toTensor();
  if (writes_back || entry.op.info().base_name == "aten::copy") {
    const auto source = args[1].toTensor();
    if (as_stand_in(source) != nullptr && copies_as_it_is(like, source)) {
      static const auto& clone = ops::entry_of(Op::intern("aten::clone.default"));
      torch::jit::drop(*stack, count);
      stack->emplace_back(source);
      stack->emplace_back();
      record(clone, stack);
      return true;
    }
  }
  static const auto& empty = ops::entry_of(Op::intern("aten::empty_strided.default"));
  Stack made = {like.sizes(),  like.strides(), like.scalar_type(),
                c10::IValue(), like.device(),  c10::IValue()};
  record(empty, &made);
  torch::jit::peek(*stack, 0, count) = made.back();
  return false;
}

void Tracer::note_reads(const Node& node) {
  const auto& traits = node.op.traits();
  if (traits.view || !traits.reads_data) return;
  for (const auto& root : roots_) {
    if (root.base >= 0) continue;
    const auto storage = graph.value(root.value).storage;
    const bool reads = without_data_.storages.contains(storage) &&
                       std::ranges::any_of(node.inputs, [&](ValueId id) {
                         return graph.is_tensor(id) && graph.value(id).storage == storage;
                       });
    if (reads) refuse_read(node, root);
  }
}

void Tracer::refuse_read(const Node& node, const Root& root) {
  // The caller may fill what it saved before the backward runs.
  if (phase == Phase::backward && root.bytes == 0) return;
  if (phase == Phase::forward && without_data_.refusal) return;
  const std::string found = root.bytes == 0 ? "a tensor whose storage has no memory"
                                            : "a tensor whose storage was allocated and not filled";
  const MutationError refusal(node.op.name(), {"tensors with data, where an operator reads them",
                                               found + ", read at " + call_site(), kFill});
  if (phase == Phase::backward || refuses_reads) throw refusal;
  without_data_.refusal = std::make_exception_ptr(refusal);
}

void Tracer::require_data() const {
  if (without_data_.refusal) std::rethrow_exception(without_data_.refusal);
}

InputStorage Tracer::storage_of_input(const Root& root) {
  if (root.base >= 0 || !without_data_.storages.contains(graph.value(root.value).storage)) {
    return InputStorage::kept;
  }
  const bool filled = is_filled(root);
  if (root.bytes == 0) {
    if (filled) refuse_freed_write();
    return root.first_bytes == 0 ? InputStorage::empty : InputStorage::frees;
  }
  if (!filled) {
    refuse_resize(
        "storages that are filled where they are allocated",
        fmt::format("one of {} bytes that the callable allocates and leaves as it is", root.bytes),
        kFill);
  }
  if (root.first_bytes == 0) return InputStorage::allocates;
  if (root.first_bytes != root.bytes) {
    refuse_resize(
        kResizesAllowed,
        fmt::format("one of {} bytes that has {} in the end", root.first_bytes, root.bytes),
        "allocate as many as it had");
  }
  return InputStorage::kept;
}

std::vector<int64_t> Tracer::sizes_of_storages() const {
  std::vector<int64_t> bytes;
  for (const auto& root : roots_) bytes.push_back(root.bytes);
  return bytes;
}

void Tracer::require_sizes(const std::vector<int64_t>& bytes) {
  for (size_t i = 0; i < roots_.size(); ++i) {
    const auto& root = roots_[i];
    if (root.base >= 0) continue;
    const auto before = i < bytes.size() ? bytes[i] : root.first_bytes;
    const bool lost = root.bytes == 0 && root.resizes > 0 && is_filled(root);
    if (root.bytes == before && !lost) continue;
    refuse_resize("a backward that leaves storages as the forward left them",
                  fmt::format("one of {} bytes that has {} after it", before, root.bytes),
                  "let the hooks of the backward free what they allocate");
  }
}

}  // namespace antegrad::capture
