#pragma once

/// \file
/// States what must hold of every kernel before it is interpreted or printed, and checks it.

#include "lower/kernel.h"

namespace antegrad::lower {

/// Throws InternalError that names the first rule that does not hold and shows the instruction or
/// declaration at fault. Linear in the size of the kernel.
void verify(const Kernel& kernel);

}  // namespace antegrad::lower
