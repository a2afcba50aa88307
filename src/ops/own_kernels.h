#pragma once

/// \file
/// Operators of antegrad: kernels that programs call for those of libtorch (OpRow::kernel).

#include <ATen/core/dispatch/Dispatcher.h>

namespace antegrad::ops {

/// antegrad::restride(Tensor self, int[] strides) -> Tensor: a copy of a tensor in memory with
/// these strides, as empty_strided makes it.
const c10::OperatorHandle& restride_operator();

}  // namespace antegrad::ops
