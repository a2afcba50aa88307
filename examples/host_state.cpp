// Host state: values that a callable reads besides its arguments. The audit finds it; then it is
// declared.

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

  // The compiled callable does not know that `smooth` changed. The audit of call 2 detects it.
  auto careless = antegrad::compile(model, loss);
  careless(x, antegrad::dynamic(1.0));
  smooth = false;
  try {
    careless(x, antegrad::dynamic(1.0));
  } catch (const antegrad::HostStateError& error) {
    std::cout << error.what() << "\n\n";
  }

  // A declared flag selects the program. The scale may take any value, since it is an input.
  auto step = antegrad::compile(model, loss, antegrad::Options().with_check_against_eager(2));
  step.guard([&] { return smooth; });
  for (int i = 0; i < 8; ++i) {
    smooth = i < 4;
    step(x, antegrad::dynamic(1.0 / (i + 1))).backward();
  }
  std::cout << step.report();
}
