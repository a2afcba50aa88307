// Compiles a two-layer function, runs it backward, and prints the norm of the gradients.

#include <ATen/ATen.h>
#include <antegrad/antegrad.h>

#include <cmath>
#include <iostream>

int main() {
  const at::Tensor x = at::randn({32, 16});
  const at::Tensor w1 = (at::randn({16, 64}) * 0.1).requires_grad_();
  const at::Tensor w2 = (at::randn({64, 1}) * 0.1).requires_grad_();

  auto step = antegrad::compile(
      [&](at::Tensor input) { return input.mm(w1).tanh().mm(w2).square().mean(); });
  auto loss = step(x);
  loss.backward();

  const double norm = at::stack({w1.grad().norm(), w2.grad().norm()}).norm().item<double>();
  std::cout << "gradient norm " << norm << '\n';
  return std::isfinite(norm) && norm > 0 ? 0 : 1;
}
