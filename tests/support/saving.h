#pragma once

/// \file
/// Shared by tests of hooks on saved tensors: callables that save tensors, and their gradients.

#include <ATen/core/Tensor.h>
#include <ATen/ops/randn.h>

#include <functional>
#include <utility>
#include <vector>

namespace antegrad::testing {

inline at::Tensor leaf(at::IntArrayRef sizes) { return at::randn(sizes).set_requires_grad(true); }

/// Saves the results of sin, exp and tanh, and the arguments.
at::Tensor saving_chain(at::Tensor x, at::Tensor y);

/// Two leaves of `rows` rows, the same at each call.
std::vector<at::Tensor> saving_arguments(int64_t rows = 6);

using TwoResults = std::function<std::pair<at::Tensor, at::Tensor>(at::Tensor, at::Tensor)>;
std::pair<at::Tensor, at::Tensor> two_results(at::Tensor x, at::Tensor y);
/// Gradients of backward passes in several forms: some gradients, other tangents, retained graphs.
std::vector<at::Tensor> several_passes(const TwoResults& function,
                                       const std::vector<at::Tensor>& xs);

/// The norm of the difference divided by the norm of `wanted`.
double relative_error(const std::vector<at::Tensor>& wanted, const std::vector<at::Tensor>& found);

}  // namespace antegrad::testing
