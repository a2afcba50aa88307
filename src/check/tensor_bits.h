#pragma once

/// \file
/// Bitwise comparison of two tensors, with the difference as text.

#include <ATen/core/Tensor.h>

#include <string>

namespace antegrad::check {

/// The number of elements of two tensors on one device, equal in dtype and sizes, whose bits
/// differ. Any NaN equals any other (docs/accuracy.md), and -0 differs from 0.
int64_t count_differing(const at::Tensor& x, const at::Tensor& y);

/// The first difference between `was` and `is`: definedness, dtype, device, sizes, bits of the
/// elements ("3 of 12 elements differ, by up to 0.5"); both values for tensors of one element.
/// Empty if there is none. Any NaN equals any other. Strides are not compared.
std::string bit_difference(const at::Tensor& was, const at::Tensor& is);

}  // namespace antegrad::check
