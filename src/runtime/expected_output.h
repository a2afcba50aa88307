#pragma once

/// \file
/// The expected metadata of a custom operator's result, from its Meta kernel or from a run on
/// zeros. Checked at run time, since capture relied on it.

#include <string>

#include "torch_compat/tensor_metadata.h"

namespace antegrad::runtime {

/// Whether the result is as expected. Strides of dimensions of size 0 or 1 do not matter.
inline bool is_as_expected(const torch_compat::TensorMetadata& expected, const at::Tensor& result) {
  return expected.matches(result, torch_compat::Match::layout);
}

/// Throws CaptureError, naming `op`, for a result that is not as expected.
void require_as_expected(const torch_compat::TensorMetadata& expected, const at::Tensor& result,
                         const std::string& op);

}  // namespace antegrad::runtime
