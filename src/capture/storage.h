#pragma once

/// \file
/// The memory of a tensor.

#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>

namespace antegrad::capture {

/// The storage of a tensor; null if it has none.
inline const c10::StorageImpl* storage_of(const at::Tensor& tensor) {
  return tensor.has_storage()
             ? tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl()
             : nullptr;
}

/// The end of the tensor's elements in its storage; the offset if it has no elements.
inline int64_t end_in_storage(const at::Tensor& tensor) {
  if (tensor.numel() == 0) return tensor.storage_offset();
  return static_cast<int64_t>(at::detail::computeStorageNbytes(
      tensor.sizes(), tensor.strides(), /*itemsize=*/1, tensor.storage_offset()));
}

}  // namespace antegrad::capture
