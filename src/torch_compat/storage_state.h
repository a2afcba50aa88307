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

}  // namespace antegrad::torch_compat
