#pragma once

/// \file
/// The outputs of a callable: its results, and their relations to inputs and to each other.

#include <ATen/core/Tensor.h>

#include <vector>

#include "capture/tracer.h"

namespace antegrad::capture {

/// The results, followed by hidden bases: tensors that are not returned, but of which results are
/// views.
struct HandedOut {
  std::vector<at::Tensor> tensors;  ///< wrappers; undefined for undefined results
  std::vector<Output> outputs;      ///< one per tensor
};

/// Describes the lifted results. Call after the callable has run and before its backward. Throws
/// CaptureError if two results show the same memory with different dtypes, unless one is a view of
/// the other.
HandedOut describe_results(Tracer& tracer, std::vector<at::Tensor> results);

}  // namespace antegrad::capture
