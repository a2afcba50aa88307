#pragma once

/// \file
/// Comparison of two tensors to the last bit, in words.

#include <ATen/core/Tensor.h>

#include <string>

namespace antegrad::check {

/// The first thing in which `is` differs from `was`: definedness, dtype, device, sizes, bits of the
/// elements ("3 of 12 elements differ, by up to 0.5"); for tensors of one element both values.
/// Empty when nothing does: NaN equals NaN of the same bits, -0 is not 0. Strides are not compared.
std::string bit_difference(const at::Tensor& was, const at::Tensor& is);

}  // namespace antegrad::check
