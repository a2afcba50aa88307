#pragma once

/// \file
/// How a backward pass arrives at a region: capture and runtime both speak of it.

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "graph/graph.h"
#include "torch_compat/autocast.h"
#include "torch_compat/tensor_metadata.h"

namespace antegrad::ops {

/// A tangent as it mostly comes: like its output, in memory of its own, with contiguous strides
/// where those of the output are not dense.
torch_compat::TensorMetadata natural_tangent(const TensorMeta& output);

/// What a tangent will look like when backward runs.
struct TangentForm {
  bool defined = true;
  /// Strides; nothing for natural ones.
  std::optional<torch_compat::Dims> strides;
  friend bool operator==(const TangentForm&, const TangentForm&) = default;
};

/// The form of a tangent.
TangentForm form_of(const at::Tensor& tangent, const torch_compat::TensorMetadata& natural);

/// How a backward pass arrives at the region.
struct BackwardForm {
  std::vector<TangentForm> tangents;  ///< one a differentiable output; empty: all defined
  torch_compat::Autocast autocast;    ///< its state while backward runs; off by default
  friend bool operator==(const BackwardForm&, const BackwardForm&) = default;
};

}  // namespace antegrad::ops
