#include "guards/slot_guards.h"

#include <algorithm>

#include "guards/changed.h"

namespace antegrad::guards {

void SlotGuards::add(const at::Tensor* slot, int32_t primal, std::string name) {
  const auto& tensor = *slot;
  auto& check = checks_.emplace_back();
  check.slot = slot;
  check.impl = tensor.unsafeGetTensorImpl();
  check.autograd = torch_compat::autograd_meta(*check.impl);
  check.keys = tensor.key_set().raw_repr();
  check.offset = tensor.storage_offset();
  check.dtype = tensor.dtype();
  check.requires_grad = tensor.requires_grad();
  check.storage = tensor.storage().unsafeGetStorageImpl();
  check.lacks_memory = torch_compat::lacks_memory(tensor);
  check.dims = static_cast<uint8_t>(std::min<int64_t>(tensor.dim(), 3));
  check.simple = tensor.is_cpu() && (tensor.dim() == 1 || tensor.dim() == 2);
  if (check.simple) {
    check.sizes[0] = tensor.sizes().front();
    check.sizes[1] = tensor.sizes().back();
    check.strides[0] = tensor.strides().front();
    check.strides[1] = tensor.strides().back();
  }
  details_.push_back({TensorGuard(tensor), primal, std::move(name)});
}

namespace {

constexpr size_t kCacheLine = 64;

// Prefetches an object. The address may be invalid.
template <class T>
void prefetch(const T* object) {
  const auto* bytes = reinterpret_cast<const char*>(object);
  for (size_t at = 0; at < sizeof(T); at += kCacheLine) __builtin_prefetch(bytes + at);
}

}  // namespace

// One branch for all fields, which are nearly always equal.
inline bool SlotGuards::holds(const Check& check) {
  const auto* impl = check.slot->unsafeGetTensorImpl();
  if (impl != check.impl) return false;
  const auto sizes = impl->sizes();
  if (sizes.size() != check.dims) return false;
  const auto* strides = impl->strides().data();
  const size_t last = check.dims - 1U;
  const auto differing =
      (impl->key_set().raw_repr() ^ check.keys) |
      static_cast<uint64_t>((impl->storage_offset() ^ check.offset) |
                            (sizes.data()[0] ^ check.sizes[0]) |
                            (sizes.data()[last] ^ check.sizes[1]) |
                            (strides[0] ^ check.strides[0]) | (strides[last] ^ check.strides[1]));
  return differing == 0 && impl->dtype() == check.dtype &&
         torch_compat::requires_grad(*impl) == check.requires_grad &&
         torch_compat::lacks_memory(*impl) == check.lacks_memory;
}

bool SlotGuards::hold(std::string* why) const {
  // Slots, tensors and their metadata do not fit into the first-level cache.
  constexpr size_t kAhead = 6;
  const auto count = checks_.size();
  for (size_t i = 0; i < count; ++i) {
    if (i + kAhead < count) {
      const auto& next = checks_[i + kAhead];
      prefetch(next.slot);
      prefetch(next.impl);
      prefetch(next.autograd);
      prefetch(next.storage);
    }
    const auto& check = checks_[i];
    if (check.simple ? holds(check)
                     : check.slot->unsafeGetTensorImpl() == check.impl &&
                           details_[i].guard.matches(*check.slot)) {
      continue;
    }
    return misfit(why, [&] {
      return details_[i].name + ": " +
             (check.slot->unsafeGetTensorImpl() == check.impl
                  ? details_[i].guard.difference(*check.slot)
                  : "the slot holds another tensor");
    });
  }
  return true;
}

void SlotGuards::collect(std::vector<at::Tensor>& primals) const {
  for (size_t i = 0; i < checks_.size(); ++i) primals[details_[i].primal] = *checks_[i].slot;
}

}  // namespace antegrad::guards
