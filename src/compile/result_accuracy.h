#pragma once

/// \file
/// Whether a result is as accurate as libtorch's, of tensors (lower/closeness.h).

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace antegrad::compiler {

/// Why `found` is less accurate than `expected`; empty if it is not. `exact`: the same in float64;
/// `wider`, `slack`: as in lower::less_accurate(). Integers and bools may be those of float64.
std::string less_accurate(const at::Tensor& found, const at::Tensor& expected,
                          const at::Tensor& exact, bool wider, double slack);

/// In float64, where they are floating-point numbers, with the same strides.
std::vector<at::Tensor> widened(const std::vector<at::Tensor>& tensors);

}  // namespace antegrad::compiler
