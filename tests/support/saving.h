#pragma once

/// \file
/// Callables that save tensors, and their gradients: what tests of hooks on saved tensors share.

#include <ATen/core/Tensor.h>
#include <ATen/ops/randn.h>

#include <functional>
#include <utility>
#include <vector>

namespace antegrad::testing {

inline at::Tensor leaf(at::IntArrayRef sizes) { return at::randn(sizes).set_requires_grad(true); }

/// Saves what sin, exp and tanh make, and the arguments.
at::Tensor saving_chain(at::Tensor x, at::Tensor y);

/// Two leaves of `rows` rows, the same at each call.
std::vector<at::Tensor> saving_arguments(int64_t rows = 6);

using TwoResults = std::function<std::pair<at::Tensor, at::Tensor>(at::Tensor, at::Tensor)>;
std::pair<at::Tensor, at::Tensor> two_results(at::Tensor x, at::Tensor y);
/// Gradients of backward passes in several forms: some gradients, other tangents, retained graphs.
std::vector<at::Tensor> several_passes(const TwoResults& function,
                                       const std::vector<at::Tensor>& xs);

/// The length of the difference over the length of what is wanted.
double relative_error(const std::vector<at::Tensor>& wanted, const std::vector<at::Tensor>& found);

}  // namespace antegrad::testing
