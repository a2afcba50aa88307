#pragma once

/// \file
/// Doubles: tensors with the metadata of others and no data, for a capture after the others are
/// gone.

#include <ATen/core/Tensor.h>

#include <vector>

#include "graph/graph.h"

namespace antegrad::capture {

/// One double per tensor, with the same metadata, requires_grad and is_leaf. Views of one base get
/// doubles that are views of one base, and tensors that share storage get doubles that share one.
/// Reading a double's data is an error.
std::vector<at::Tensor> doubles_of(const std::vector<at::Tensor>& tensors);

/// A tensor with this metadata, which must have constant sizes, and no data.
at::Tensor double_like(const TensorMeta& meta);

}  // namespace antegrad::capture
