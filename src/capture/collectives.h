#pragma once

/// \file
/// What capture does with collectives that the callable itself calls, above autograd.

#include <ATen/core/stack.h>

#include "ops/op_table.h"

namespace antegrad::capture {

/// `_c10d_functional::wait_tensor`: recorded, and returns the tensor that it is given, as its
/// kernel does. The same with the operator that torch.distributed calls where nobody traces.
/// Handles the call, and returns true.
bool wait_for_collective(const ops::OpEntry& entry, torch::jit::Stack* stack);

/// Throws CaptureError for collectives that cannot be captured: c10d's own, which write their
/// arguments and return a handle, and functional ones without a shape function. Returns false.
bool check_collective(const ops::OpEntry& entry, torch::jit::Stack* stack);
/// Whether check_collective() is for this operator.
bool is_collective(const ops::OpEntry& entry);

}  // namespace antegrad::capture
