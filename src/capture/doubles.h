#pragma once

/// \file
/// Tensors that look like others and hold no data, for a capture after the others are gone.

#include <ATen/core/Tensor.h>

#include <vector>

#include "graph/graph.h"

namespace antegrad::capture {

/// One double a tensor: same metadata, requires-grad, leaf or not, views of one base where the
/// tensors are, one storage where they share one. Reading a double's data is an error.
std::vector<at::Tensor> doubles_of(const std::vector<at::Tensor>& tensors);

/// A tensor of that metadata, of constant sizes, without data.
at::Tensor double_like(const TensorMeta& meta);

}  // namespace antegrad::capture
