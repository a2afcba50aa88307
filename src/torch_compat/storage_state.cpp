#include "torch_compat/storage_state.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/empty.h>
#include <antegrad/error.h>
#include <c10/core/DeviceGuard.h>

#include <optional>

#include "torch_compat/private_member.h"

namespace antegrad::torch_compat {

// Only public for clearing since torch 2.12.
using DataForbidden = MemberTag<struct OfDataForbidden, bool, c10::StorageImpl>;
template struct Expose<DataForbidden, &c10::StorageImpl::throw_on_immutable_data_ptr_>;

void forbid_data(c10::StorageImpl& storage) {
  storage.release_data_and_set_meta_custom_data_ptr_error_msg_(std::nullopt);
}

void allow_data(c10::StorageImpl& storage) { storage.*expose(DataForbidden()) = false; }

at::Tensor bytes_of(const c10::Storage& storage) {
  const auto size = static_cast<int64_t>(storage.nbytes());
  return at::empty({0}, at::TensorOptions().dtype(at::kByte).device(storage.device()))
      .set_(storage, /*storage_offset=*/0, {size}, {1});
}

void free_memory(c10::StorageImpl& storage) noexcept {
  storage.set_data_ptr_noswap(at::DataPtr(nullptr, storage.device()));
  storage.set_nbytes(0);
}

void allocate_memory(c10::StorageImpl& storage, size_t bytes) {
  auto* allocator = storage.allocator();
  if (allocator == nullptr) {
    throw InputError(ErrorText{"storages that libtorch allocated, to allocate them again",
                               "one whose memory belongs to somebody else (from_blob)",
                               "resize the storage of a clone()"});
  }
  const c10::OptionalDeviceGuard device(storage.device());
  storage.set_data_ptr_noswap(allocator->allocate(bytes));
  storage.set_nbytes(bytes);
}

at::Tensor view_without_memory(const at::Tensor& base, at::IntArrayRef sizes,
                               at::IntArrayRef strides, int64_t offset) {
  auto& storage = *base.storage().unsafeGetStorageImpl();
  const bool empty = storage.nbytes() == 0;
  if (empty) {
    storage.set_nbytes(at::detail::computeStorageNbytes(
        sizes, strides, static_cast<size_t>(base.itemsize()), static_cast<size_t>(offset)));
  }
  auto view = base.as_strided(sizes, strides, offset);
  if (empty) storage.set_nbytes(0);
  return view;
}

at::Tensor span_without_memory(const at::Tensor& tensor, at::IntArrayRef sizes,
                               at::IntArrayRef strides, int64_t offset) {
  auto* impl = tensor.unsafeGetTensorImpl();
  at::Tensor span(impl->shallow_copy_and_detach(impl->version_counter(),
                                                /*allow_tensor_metadata_change=*/true));
  span.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, offset);
  return span;
}

}  // namespace antegrad::torch_compat
