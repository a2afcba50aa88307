#pragma once

/// \file
/// The memory that a tensor shows.

#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>

namespace antegrad::capture {

/// The storage of a tensor, null when it has none.
inline const c10::StorageImpl* storage_of(const at::Tensor& tensor) {
  return tensor.has_storage()
             ? tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl()
             : nullptr;
}

/// Past the last element of its storage that a tensor shows; where it starts, when it shows none.
inline int64_t end_in_storage(const at::Tensor& tensor) {
  if (tensor.numel() == 0) return tensor.storage_offset();
  return static_cast<int64_t>(at::detail::computeStorageNbytes(
      tensor.sizes(), tensor.strides(), /*itemsize=*/1, tensor.storage_offset()));
}

}  // namespace antegrad::capture
