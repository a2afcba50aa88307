#pragma once

/// \file
/// Operators of libtorch that programs run through a kernel of ours.

#include <ATen/core/dispatch/Dispatcher.h>

namespace antegrad::ops {

/// The operator, with arguments and results as in `op`, whose kernel a program calls for it; mostly
/// itself.
c10::OperatorHandle kernel_of(const c10::OperatorHandle& op);

/// antegrad::restride(Tensor self, int[] strides) -> Tensor: a copy of a tensor in memory with
/// these strides, as empty_strided makes it.
const c10::OperatorHandle& restride_operator();

}  // namespace antegrad::ops
