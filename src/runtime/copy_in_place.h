#pragma once

#include <ATen/core/Tensor.h>

namespace antegrad::runtime {

/// A copy whose memory is laid out like the original's, from the start of the storage, so that
/// views of it can be recomputed by offsets. Call it below autograd.
at::Tensor copy_in_place(const at::Tensor& tensor);

}  // namespace antegrad::runtime
