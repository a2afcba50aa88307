#pragma once

/// \file
/// Copies many tensors at once. A batch norm has three small buffers, so a model has hundreds: on a
/// GPU, a kernel for each would cost more than what it copies.

#include <ATen/core/Tensor.h>

#include <vector>

namespace antegrad::runtime {

/// Copies each source into the target at its position, below autograd: versions stay. Targets share
/// no memory.
void copy_together(const std::vector<at::Tensor>& targets, const std::vector<at::Tensor>& sources);

}  // namespace antegrad::runtime
