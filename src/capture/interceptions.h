#pragma once

/// \file
/// Operators that capture handles by name above autograd, because the dispatcher alone would get
/// them wrong.

#include <ATen/core/stack.h>

#include "ops/op_table.h"

namespace antegrad::capture {

/// Handles the call and returns true, or leaves the stack unchanged and returns false. Arguments
/// are already lifted.
bool intercept(const ops::OpEntry& entry, torch::jit::Stack* stack);

}  // namespace antegrad::capture
