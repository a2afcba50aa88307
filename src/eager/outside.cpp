#include "eager/outside.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <antegrad/error.h>

#include <algorithm>

#include "ops/tensors_in.h"
#include "torch_compat/storage_state.h"

namespace antegrad::eager {
namespace {

const c10::StorageImpl* storage_of(const at::Tensor& tensor) {
  return tensor.defined() && tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl()
                                                  : nullptr;
}

}  // namespace

Outside::Outside(const std::vector<at::Generator>& generators) {
  random_.note_default(at::kCPU);
  for (const auto& generator : generators) random_.note(generator);
}

void Outside::use(const at::Tensor& tensor, bool writes) {
  const auto* storage = storage_of(tensor);
  if (storage == nullptr || made_inside_.contains(storage)) return;
  // Inner operators receive arguments of outer ones, and memory that nothing has used yet.
  if (depth_ > 0 && !used_.contains(storage)) return;
  const auto& impl = tensor.getIntrusivePtr();
  auto [it, is_new] = used_.try_emplace(
      storage, Used{c10::weak_intrusive_ptr(impl), tensor.storage().getWeakStorageImpl(),
                    impl->version_counter()});
  auto& used = it->second;
  if (is_new) {
    if (tensor.is_cuda()) random_.note_default(tensor.device());
    used.version = used.counter.enabled() ? used.counter.current_version() : 0;
  }
  used.requires_grad = used.requires_grad || tensor.requires_grad();
  if (!writes || used.written) return;
  used.written = true;
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  auto memory = torch_compat::bytes_of(tensor.storage());
  auto before = memory.clone();
  written_.push_back({tensor, std::move(memory), std::move(before), impl->version_counter()});
}

const Outside::Writes& Outside::writes_of(const c10::OperatorHandle& op) {
  const auto [it, is_new] = writes_.try_emplace(&op.schema());
  auto& writes = it->second;
  if (!is_new) return writes;
  const auto& name = op.operator_name().name;
  writes.resizes = name == "antegrad::resize_storage_" || name == "inductor::resize_storage_bytes_";
  const auto& arguments = op.schema().arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto* alias = arguments[i].alias_info();
    if (alias != nullptr && alias->isWrite()) writes.declared.push_back(i);
  }
  const auto& entry = ops::entry_of(op);
  if (entry.policy == ops::Policy::hidden_mutation) writes.hidden = &entry;
  return writes;
}

void Outside::before(const c10::OperatorHandle& op, at::ArrayRef<c10::IValue> arguments) {
  const bool interrupted = std::exchange(interrupted_, true);
  const auto& writes = writes_of(op);
  resizes_ |= writes.resizes;
  const auto hidden = writes.hidden != nullptr ? ops::written_arguments(*writes.hidden, arguments)
                                               : std::vector<size_t>();
  const auto contains = [](const std::vector<size_t>& positions, size_t i) {
    return std::find(positions.begin(), positions.end(), i) != positions.end();
  };
  for (size_t i = 0; i < arguments.size(); ++i) {
    const bool is_written = contains(writes.declared, i) || contains(hidden, i);
    ops::for_each_tensor(arguments[i], [&](const at::Tensor& tensor) { use(tensor, is_written); });
    if (arguments[i].isGenerator()) random_.note(arguments[i].toGenerator());
    if (arguments[i].isDevice()) random_.note_default(arguments[i].toDevice());
  }
  ++depth_;
  interrupted_ = interrupted;
}

void Outside::after(at::ArrayRef<c10::IValue> results) {
  const bool interrupted = std::exchange(interrupted_, true);
  --depth_;
  for (const auto& result : results) {
    ops::for_each_tensor(result, [&](const at::Tensor& tensor) {
      const auto* storage = storage_of(tensor);
      if (storage == nullptr || used_.contains(storage)) return;
      made_inside_.try_emplace(storage, tensor.storage().getWeakStorageImpl());
    });
  }
  interrupted_ = interrupted;
}

std::string Outside::finish() {
  random_.finish();
  made_inside_.clear();
  writes_.clear();
  if (interrupted_) return "its operators could not be watched";
  if (resizes_) return "it resizes the storage of a tensor";
  for (auto& written : written_) {
    const auto tensor = std::exchange(written.tensor, at::Tensor());
    if (used_.at(storage_of(tensor)).requires_grad || tensor.requires_grad()) {
      return "it writes in place to a tensor that takes part in autograd";
    }
  }
  // Memory without other owners was created by the block.
  std::erase_if(written_, [](const Written& w) { return w.memory.storage().use_count() == 1; });
  for (const auto& [storage, used] : used_) {
    if (used.written || !used.counter.enabled()) continue;
    if (used.counter.current_version() != used.version) {
      return "it writes to a tensor other than by operators";
    }
  }
  return "";
}

void Outside::check_unchanged() const {
  for (const auto& [storage, used] : used_) {
    if (used.written) continue;
    const auto version = used.counter.enabled() ? used.counter.current_version() : used.version;
    if (version != used.version) {
      throw BackwardError(ErrorText{
          "arguments, parameters and buffers of a checkpointed block, unchanged since the "
          "forward (version " +
              std::to_string(used.version) + ")",
          "one that was modified in place (version " + std::to_string(version) + ")",
          "run backward before it is modified, or give the block a clone() of it"});
    }
    const auto tensor = used.tensor.lock();
    if (!tensor ||
        (tensor->has_storage() && tensor->unsafe_storage().unsafeGetStorageImpl() == storage)) {
      continue;
    }
    throw BackwardError(ErrorText{
        "arguments, parameters and buffers of a checkpointed block with the data of the forward",
        "one that was given other data since (set_data(), or module.to())",
        "run backward before a module is moved"});
  }
}

BuffersBefore::BuffersBefore(const Outside& outside) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  for (const auto& written : outside.written_) {
    const auto version = written.counter.enabled() ? written.counter.current_version() : 0;
    present_.push_back({written.memory, written.memory.clone(), written.counter, version});
  }
  for (const auto& written : outside.written_) written.memory.copy_(written.before);
}

BuffersBefore::~BuffersBefore() {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  for (auto& present : present_) {
    present.memory.copy_(present.contents);
    if (present.counter.enabled()) present.counter.set_version(present.version);
  }
}

}  // namespace antegrad::eager
