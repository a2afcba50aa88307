#pragma once

/// \file
/// The data of a storage: whether it may be read, and all of its bytes.

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>

namespace antegrad::torch_compat {

/// Makes libtorch throw on every access to the data pointer, including reads.
void forbid_data(c10::StorageImpl& storage);
/// Undoes that.
void allow_data(c10::StorageImpl& storage);

/// All bytes of a storage, in place. Writes through it do not advance the version counters of
/// other tensors.
at::Tensor bytes_of(const c10::Storage& storage);

/// Gives up the memory of a storage, which then has 0 bytes.
void free_memory(c10::StorageImpl& storage) noexcept;
/// Gives a storage of 0 bytes memory that is not initialised, from the allocator that it came with.
/// Throws InputError if there is none (memory that belongs to somebody else), and what the
/// allocator throws.
void allocate_memory(c10::StorageImpl& storage, size_t bytes);

/// as_strided() of a tensor whose storage may have no memory, where libtorch checks the bounds. No
/// other thread may use the storage meanwhile.
at::Tensor view_without_memory(const at::Tensor& base, at::IntArrayRef sizes,
                               at::IntArrayRef strides, int64_t offset);
/// The same below autograd, where other threads may: a tensor with the version counter of `tensor`.
at::Tensor span_without_memory(const at::Tensor& tensor, at::IntArrayRef sizes,
                               at::IntArrayRef strides, int64_t offset);

}  // namespace antegrad::torch_compat
