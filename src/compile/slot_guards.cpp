#include "compile/slot_guards.h"

#include <algorithm>

#include "torch_compat/tensor_state.h"

namespace antegrad::compiler {

void SlotGuards::add(const at::Tensor* slot, int32_t primal, std::string name) {
  const auto& tensor = *slot;
  Check check{};
  check.slot = slot;
  check.impl = tensor.unsafeGetTensorImpl();
  check.keys = tensor.key_set().raw_repr();
  check.offset = tensor.storage_offset();
  check.dtype = tensor.dtype();
  check.dims = static_cast<uint8_t>(std::min<int64_t>(tensor.dim(), 3));
  check.requires_grad = tensor.requires_grad();
  check.has_device_index = !tensor.is_cpu();
  for (int64_t d = 0; d < tensor.dim() && d < 2; ++d) {
    check.sizes[d] = tensor.size(d);
    check.strides[d] = tensor.stride(d);
  }
  checks_.push_back(check);
  details_.push_back({TensorGuard(tensor), primal, std::move(name)});
}

bool SlotGuards::holds(const Check& check) {
  const auto* impl = check.slot->unsafeGetTensorImpl();
  if (impl != check.impl || impl->key_set().raw_repr() != check.keys ||
      impl->dtype() != check.dtype || impl->storage_offset() != check.offset ||
      torch_compat::requires_grad(*impl) != check.requires_grad) {
    return false;
  }
  const auto sizes = impl->sizes();
  if (sizes.size() != check.dims) return false;
  const auto* strides = impl->strides().data();
  for (size_t d = 0; d < check.dims; ++d) {
    if (sizes.data()[d] != check.sizes[d] || strides[d] != check.strides[d]) return false;
  }
  return true;
}

bool SlotGuards::hold(std::string* why) const {
  for (size_t i = 0; i < checks_.size(); ++i) {
    const auto& check = checks_[i];
    const bool simple = check.dims < 3 && !check.has_device_index;
    if (simple ? holds(check)
               : check.slot->unsafeGetTensorImpl() == check.impl &&
                     details_[i].guard.matches(*check.slot)) {
      continue;
    }
    return explain(i, why);
  }
  return true;
}

bool SlotGuards::explain(size_t index, std::string* why) const {
  if (why == nullptr) return false;
  const auto& check = checks_[index];
  const auto& details = details_[index];
  *why = details.name + ": " +
         (check.slot->unsafeGetTensorImpl() == check.impl ? details.guard.difference(*check.slot)
                                                          : "the slot holds another tensor");
  return false;
}

void SlotGuards::collect(std::vector<at::Tensor>& primals) const {
  for (size_t i = 0; i < checks_.size(); ++i) {
    primals[static_cast<size_t>(details_[i].primal)] = *checks_[i].slot;
  }
}

}  // namespace antegrad::compiler
