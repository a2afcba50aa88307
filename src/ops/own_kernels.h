#pragma once

/// \file
/// antegrad's own kernels, which programs call in place of libtorch's (OpRow::kernel).

#include <ATen/core/dispatch/Dispatcher.h>

namespace antegrad::ops {

/// antegrad::restride(Tensor self, int[] strides) -> Tensor: a copy of a tensor with these strides,
/// in memory laid out as by empty_strided.
const c10::OperatorHandle& restride_operator();

}  // namespace antegrad::ops
