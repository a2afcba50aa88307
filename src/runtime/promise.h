#pragma once

/// \file
/// What a custom operator will return, as its Meta kernel or its run on zeros said; the rest of the
/// program was captured on the strength of it.

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "graph/graph.h"

namespace antegrad::runtime {

struct Promise {
  Promise() = default;  ///< an undefined tensor, or no tensor
  explicit Promise(const TensorMeta& meta);

  bool defined = false;
  at::ScalarType dtype = at::kFloat;
  c10::Device device = at::kCPU;
  std::vector<int64_t> sizes, strides;
};

/// Whether a tensor is as promised. Strides of dimensions that have one element, or none, do not
/// matter.
bool is_kept(const Promise& promise, const at::Tensor& tensor);

/// Throws CaptureError, in the name of `op`, for a tensor that is not as promised.
void require_kept(const Promise& promise, const at::Tensor& tensor, const std::string& op);

}  // namespace antegrad::runtime
