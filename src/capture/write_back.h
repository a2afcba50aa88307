#pragma once

/// \file
/// Operators that libtorch's functionalisation calls while an operator writes in place, to bring
/// what was written through a view back to the memory that the view shows. Some of them give other
/// bits than the write in eager.

#include <ATen/core/stack.h>

#include "capture/in_place.h"
#include "ops/op_table.h"

namespace antegrad::capture {

/// The operator to record for `entry`, whose arguments are on the stack, where a write through a
/// lazily conjugated or negated view comes back: the memory gets numbers, for it has no such bit.
/// Null for other calls, and for views of the written memory, which `entry` itself makes again.
const ops::OpEntry* written_back_as(const InPlace& writing, const ops::OpEntry& entry,
                                    const torch::jit::Stack& stack);

/// Throws MutationError for calls that would round: functionalisation puts windows of unfold() back
/// into a tensor of zeros, and what was expanded as base + sum(new - old).
void refuse_inexact_write_back(const ops::OpEntry& entry);

/// mul_(scalar) rounds the scalar to the tensor's type first; mul(scalar) does not. Rounds it for
/// the latter. Leaves other calls as they are.
void round_factor(const ops::OpEntry& entry, torch::jit::Stack& stack);

}  // namespace antegrad::capture
