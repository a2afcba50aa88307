#pragma once

/// \file
/// Runs the functional twin of an operator that writes: the operator itself, on copies of what it
/// writes.

#include <ATen/core/stack.h>

#include "ops/op_table.h"

namespace antegrad::runtime {

/// Replaces the arguments on the stack by the outputs of the twin: what the operator newly makes,
/// then the copies that it wrote. The copies have the strides of the originals. Throws
/// MutationError when the operator resized one.
void call_twin(const ops::OpEntry& twin, torch::jit::Stack& stack);

}  // namespace antegrad::runtime
