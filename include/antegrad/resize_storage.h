#pragma once

/// \file
/// Frees the memory of a tensor and allocates it again, without another tensor: what sharded
/// training does to gathered parameters. docs/capture.md describes it in compiled callables.

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace antegrad {

/// The operator antegrad::resize_storage_: resizes the storage of `tensor`, which all tensors that
/// share it see, to 0 bytes, or from 0 to `bytes`. The current size changes nothing. Sizes, strides
/// and versions stay. New memory is not initialised: fill all of it (copy_(), _foreach_copy_(),
/// out=) before anything reads it.
///
/// Throws InputError for another size, for fewer bytes than the tensor shows, and for memory that
/// belongs to somebody else (from_blob); in a capture MutationError, which names the place.
/// Eager code that reads a tensor without memory crashes, as with untyped_storage().resize_(); a
/// compiled callable that would is refused.
void resize_storage_(const at::Tensor& tensor, int64_t bytes);

}  // namespace antegrad
