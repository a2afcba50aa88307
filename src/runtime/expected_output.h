#pragma once

/// \file
/// Expected metadata of a custom operator's result, checked at run time, since capture relied on
/// its Meta kernel or its run on zeros.

#include <string>

#include "torch_compat/tensor_metadata.h"

namespace antegrad::runtime {

/// Whether the result is as expected. Strides of dimensions with one element, or none, do not
/// matter.
inline bool is_as_expected(const torch_compat::TensorMetadata& expected, const at::Tensor& result) {
  return expected.matches(result, torch_compat::Match::layout);
}

/// Throws CaptureError, in the name of `op`, for a result that is not as expected.
void require_as_expected(const torch_compat::TensorMetadata& expected, const at::Tensor& result,
                         const std::string& op);

}  // namespace antegrad::runtime
