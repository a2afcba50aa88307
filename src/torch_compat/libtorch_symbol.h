#pragma once

/// \file
/// Functions that libtorch_cpu exports from the libraries inside it: MKL, Sleef.

namespace antegrad::torch_compat {

/// Null if there is none of this name.
void* libtorch_symbol(const char* name);

}  // namespace antegrad::torch_compat
