#pragma once

/// \file
/// Whether a result is as accurate as libtorch's, of tensors (lower/closeness.h).

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace antegrad::compiler {

/// Why `found` is less accurate than `expected`; empty if it is not. `exact`: the same in float64;
/// `wider`, `slack`: as in lower::less_accurate(). Integers and bools may be those of float64. Of
/// large results on a GPU a sample is judged.
std::string less_accurate(const at::Tensor& found, const at::Tensor& expected,
                          const at::Tensor& exact, bool wider, double slack);

/// Elements of three results of one shape, as rows of a float64 tensor on the CPU: enough of them
/// for means, at an odd distance, and those where `found` or `expected` is furthest from `exact`,
/// or is a NaN where that is none. So an element that is wrong is among them, wherever it is.
at::Tensor sampled(const at::Tensor& found, const at::Tensor& expected, const at::Tensor& exact);

/// In float64, where they are floating-point numbers, with the same strides.
std::vector<at::Tensor> widened(const std::vector<at::Tensor>& tensors);

}  // namespace antegrad::compiler
