#pragma once

/// \file
/// Bitwise comparison: NaNs must have the same bits, and -0 differs from 0.

#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include <vector>

namespace antegrad::testing {

/// Same definedness, dtype, sizes and bits. Strides may differ.
::testing::AssertionResult same_bits(const at::Tensor& a, const at::Tensor& b);
::testing::AssertionResult same_bits(const std::vector<at::Tensor>& a,
                                     const std::vector<at::Tensor>& b);

/// The same, but any NaN equals any other: generated kernels promise no more (docs/accuracy.md).
::testing::AssertionResult same_numbers(const at::Tensor& a, const at::Tensor& b);

/// State of the default generator of a device.
at::Tensor generator_state(c10::Device device = at::kCPU);
void set_generator_state(const at::Tensor& state, c10::Device device = at::kCPU);

/// The supported devices of this machine: the CPU, and a GPU if there is one.
std::vector<c10::Device> devices();

/// Copies that share no memory with the originals: leaves with the same requires_grad.
std::vector<at::Tensor> clone_all(const std::vector<at::Tensor>& tensors);

}  // namespace antegrad::testing
