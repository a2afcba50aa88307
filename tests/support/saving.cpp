#include "support/saving.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/utils.h>

#include <cmath>

namespace antegrad::testing {

at::Tensor saving_chain(at::Tensor x, at::Tensor y) {  // NOLINT: as std::function calls it
  auto z = (x * y).sin();
  z = z.exp() * z;
  return z.tanh().mm(y.t()).square().sum();
}

std::vector<at::Tensor> saving_arguments(int64_t rows) {
  torch::manual_seed(1);
  return {at::randn({rows, 4}).requires_grad_(), at::randn({rows, 4}).requires_grad_()};
}

std::pair<at::Tensor, at::Tensor> two_results(at::Tensor x, at::Tensor y) {  // NOLINT
  const auto z = (x * y).sin().exp();
  return {z * x, z.tanh()};
}

std::vector<at::Tensor> several_passes(const TwoResults& function,
                                       const std::vector<at::Tensor>& xs) {
  std::vector<at::Tensor> all;
  const auto add = [&](const std::vector<at::Tensor>& some) {
    all.insert(all.end(), some.begin(), some.end());
  };
  const auto [a, b] = function(xs[0], xs[1]);
  add(torch::autograd::grad({a.sum()}, xs, {}, true));
  add(torch::autograd::grad({b.sum()}, {xs[1]}, {}, true));
  add(torch::autograd::grad({a, b}, {xs[0]}, {at::ones_like(a).t().contiguous().t(), b}, true));
  add(torch::autograd::grad({a.sum() + b.sum()}, xs));
  return all;
}

double relative_error(const std::vector<at::Tensor>& wanted, const std::vector<at::Tensor>& found) {
  double difference = 0, size = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    difference += (wanted[i] - found[i]).square().sum().item<double>();
    size += wanted[i].square().sum().item<double>();
  }
  return std::sqrt(difference / size);
}

}  // namespace antegrad::testing
