#pragma once

/// \file
/// Runs the functional twin of an operator that writes its arguments: the operator itself, on
/// copies of them.

#include <ATen/core/stack.h>

#include "ops/op_table.h"

namespace antegrad::runtime {

/// Replaces the arguments on the stack by the outputs of the twin: the operator's new results, then
/// the written copies, which have the strides of the originals. Throws MutationError if the
/// operator resized one. `overwrites` has a bit for each argument that is not copied, since nobody
/// else sees it.
void call_twin(const ops::OpEntry& twin, torch::jit::Stack& stack, uint16_t overwrites = 0);

}  // namespace antegrad::runtime
