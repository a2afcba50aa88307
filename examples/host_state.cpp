// Host state: what a callable reads besides its arguments, found by the audit, then declared.

#include <antegrad/antegrad.h>
#include <torch/torch.h>

#include <iostream>

int main() {
  torch::manual_seed(0);
  torch::nn::Linear model(16, 4);
  const auto x = torch::randn({8, 16});
  bool smooth = true;
  const auto loss = [&](const at::Tensor& in, antegrad::Dynamic<double> scale) {
    const auto y = model->forward(in) * scale;
    return (smooth ? torch::tanh(y) : torch::relu(y)).pow(2).mean();
  };

  // Nothing tells the compiled callable that `smooth` changed; the audit of call 2 does.
  auto careless = antegrad::compile(model, loss);
  careless(x, antegrad::dynamic(1.0));
  smooth = false;
  try {
    careless(x, antegrad::dynamic(1.0));
  } catch (const antegrad::HostStateError& error) {
    std::cout << error.what() << "\n\n";
  }

  // Declared, it selects the program. The scale may take any value: it is an input.
  auto step = antegrad::compile(model, loss, antegrad::Options().with_check_against_eager(2));
  step.guard([&] { return smooth; });
  for (int i = 0; i < 8; ++i) {
    smooth = i < 4;
    step(x, antegrad::dynamic(1.0 / (i + 1))).backward();
  }
  std::cout << step.report();
}
