#pragma once

/// \file
/// Gradients limited before an update, as torch::nn::utils::clip_grad_value_() and
/// clip_grad_norm_() do it, operator by operator.

#include <ATen/core/Tensor.h>
#include <antegrad/compile_step.h>

#include <vector>

namespace antegrad::step {

/// Throws OptionError for limits that are negative or no numbers, and for less than one call of an
/// update.
void check(const StepOptions& options);

/// New gradients: by value first, then by the norm of all of them.
std::vector<at::Tensor> clipped(std::vector<at::Tensor> gradients, const StepOptions& options);

}  // namespace antegrad::step
