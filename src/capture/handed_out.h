#pragma once

/// \file
/// What a callable hands out: its results, and how they relate to inputs and to each other.

#include <ATen/core/Tensor.h>

#include <vector>

#include "capture/tracer.h"

namespace antegrad::capture {

/// The results, followed by hidden bases: tensors that are not returned and that results are views
/// of.
struct HandedOut {
  std::vector<at::Tensor> tensors;  ///< wrappers, undefined for undefined results
  std::vector<Output> outputs;      ///< one a tensor
};

/// Takes results (lifted) and describes them. Call when the callable is done and before its
/// backward runs. Throws CaptureError for a result whose memory another shows with another dtype,
/// unless one is a view of the other.
HandedOut describe_results(Tracer& tracer, std::vector<at::Tensor> results);

}  // namespace antegrad::capture
