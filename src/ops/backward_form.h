#pragma once

/// \file
/// The form in which a backward pass arrives at a region, for capture and runtime.

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "graph/graph.h"
#include "torch_compat/autocast.h"
#include "torch_compat/tensor_metadata.h"

namespace antegrad::ops {

/// The usual metadata of a tangent: those of its output, in its own memory, with contiguous strides
/// if those of the output are not dense.
torch_compat::TensorMetadata natural_tangent(const TensorMeta& output);

/// The expected metadata of a tangent in the backward.
struct TangentForm {
  bool defined = true;
  /// Strides; nothing for natural ones.
  std::optional<torch_compat::Dims> strides;
  friend bool operator==(const TangentForm&, const TangentForm&) = default;
};

/// The form of a tangent.
TangentForm form_of(const at::Tensor& tangent, const torch_compat::TensorMetadata& natural);

/// The form in which a backward pass arrives at the region.
struct BackwardForm {
  std::vector<TangentForm> tangents;  ///< one per differentiable output; empty: all defined
  torch_compat::Autocast autocast;    ///< its state during the backward; off by default
  friend bool operator==(const BackwardForm&, const BackwardForm&) = default;
};

}  // namespace antegrad::ops
