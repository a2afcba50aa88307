#pragma once

/// \file
/// Whether the data of a storage may be asked for.

#include <c10/core/StorageImpl.h>

namespace antegrad::torch_compat {

/// Makes libtorch throw when somebody asks for the data pointer, reads included.
void forbid_data(c10::StorageImpl& storage);
/// Undoes that.
void allow_data(c10::StorageImpl& storage);

}  // namespace antegrad::torch_compat
