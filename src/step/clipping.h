#pragma once

/// \file
/// Gradients limited before an update, as clip_grad_value_() and clip_grad_norm_() do it, operator
/// by operator.

#include <ATen/core/Tensor.h>
#include <antegrad/compile_step.h>

#include <vector>

namespace antegrad::step {

/// Throws OptionError for limits that are negative or no numbers, and for less than one call of an
/// update.
void check(const StepOptions& options);

/// The tensor by which gradients are multiplied to limit their norm. At least one gradient.
using ClipFactor = at::Tensor (*)(const std::vector<at::Tensor>& gradients, double max_norm,
                                  double norm_type);

/// As in torch::nn::utils (torch/nn/utils/clip_grad.h).
at::Tensor clip_factor_of_cpp(const std::vector<at::Tensor>& gradients, double max_norm,
                              double norm_type);
/// As in torch.nn.utils (torch/nn/utils/clip_grad.py), which divides by multiplying with a
/// reciprocal, and whose norm 0 counts elements instead of gradients.
at::Tensor clip_factor_of_python(const std::vector<at::Tensor>& gradients, double max_norm,
                                 double norm_type);

/// New gradients: by value first, then by the norm of all of them.
std::vector<at::Tensor> clipped(std::vector<at::Tensor> gradients, const StepOptions& options,
                                ClipFactor factor);

}  // namespace antegrad::step
