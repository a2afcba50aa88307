#pragma once

/// \file
/// Shared by the tests of programs with generated kernels: one training step of a callable.

#include <ATen/ATen.h>

#include <vector>

namespace antegrad::testing {

using List = std::vector<at::Tensor>;

inline at::Tensor leaf(at::IntArrayRef sizes, double scale = 1) {
  return at::randn(sizes).mul_(scale).requires_grad_();
}

/// The loss that a callable returns, and the gradients of inputs that need one.
template <class Callable>
List trained(Callable& callable, const List& inputs) {
  at::Tensor loss = callable(inputs);
  loss.backward();
  List all{loss.detach()};
  for (const auto& input : inputs) {
    if (input.requires_grad()) all.push_back(input.grad());
  }
  return all;
}

}  // namespace antegrad::testing
