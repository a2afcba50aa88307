#pragma once

/// \file
/// How a backward pass arrives at a region: capture and runtime both speak of it.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/graph.h"
#include "torch_compat/autocast.h"

namespace antegrad::ops {

/// Sizes and strides of a tangent as it mostly comes: those of its output, contiguous strides where
/// those of the output are not dense.
struct NaturalTangent {
  std::vector<int64_t> sizes, strides;
};
NaturalTangent natural_tangent(const TensorMeta& output);

/// What a tangent will look like when backward runs.
struct TangentForm {
  bool defined = true;
  /// Strides; nothing for natural ones.
  std::optional<std::vector<int64_t>> strides;
  friend bool operator==(const TangentForm&, const TangentForm&) = default;
};

/// The form of a tangent.
TangentForm form_of(const at::Tensor& tangent, const NaturalTangent& natural);

/// How a backward pass arrives at the region.
struct BackwardForm {
  std::vector<TangentForm> tangents;  ///< one a differentiable output; empty: all defined
  torch_compat::Autocast autocast;    ///< its state while backward runs; off by default
  friend bool operator==(const BackwardForm&, const BackwardForm&) = default;
};

}  // namespace antegrad::ops
