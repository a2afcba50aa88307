#pragma once

/// \file
/// Operators that libtorch's functionalisation calls to write a view's new value back into the
/// memory that the view shows. Some of them give other bits than the write in eager.

#include <ATen/core/stack.h>

#include "capture/in_place.h"
#include "ops/op_table.h"

namespace antegrad::capture {

/// The operator to record in place of `entry`, whose arguments are on the stack, if a write through
/// a lazily conjugated or negated view is written back: the memory has no such bit and needs plain
/// numbers. Null for other calls, and for views of the written memory, which `entry` itself
/// recomputes.
const ops::OpEntry* written_back_as(const InPlace& writing, const ops::OpEntry& entry,
                                    const torch::jit::Stack& stack);

/// Throws MutationError for write-backs that would round: functionalisation writes windows of
/// unfold() back into a tensor of zeros, and expanded tensors as base + sum(new - old), which bools
/// do not have.
void refuse_inexact_write_back(const InPlace& writing, const ops::OpEntry& entry,
                               const torch::jit::Stack& stack);

/// mul_(scalar) rounds the scalar to the tensor's dtype first; mul(scalar) does not. Rounds it for
/// the latter. Leaves other calls unchanged.
void round_factor(const ops::OpEntry& entry, torch::jit::Stack& stack);

}  // namespace antegrad::capture
