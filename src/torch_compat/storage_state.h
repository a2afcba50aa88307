#pragma once

/// \file
/// The data of a storage: whether it may be asked for, and all of it.

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>

namespace antegrad::torch_compat {

/// Makes libtorch throw when somebody asks for the data pointer, reads included.
void forbid_data(c10::StorageImpl& storage);
/// Undoes that.
void allow_data(c10::StorageImpl& storage);

/// All bytes of a storage, in place; writes through it move no version counter of others.
at::Tensor bytes_of(const c10::Storage& storage);

}  // namespace antegrad::torch_compat
