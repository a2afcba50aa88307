// The example of the README: a training step, compiled.

#include <antegrad/antegrad.h>
#include <torch/torch.h>

#include <iostream>

int main() {
  torch::manual_seed(0);
  torch::nn::Sequential model(torch::nn::Linear(64, 256), torch::nn::GELU(),
                              torch::nn::Dropout(0.1), torch::nn::Linear(256, 10));
  torch::optim::AdamW optimizer(model->parameters(), 1e-3);
  auto loss_of = antegrad::compile(model, [&](at::Tensor x, at::Tensor y) {
    return torch::nn::functional::cross_entropy(model->forward(x), y);
  });

  const auto x = torch::randn({128, 64});
  const auto y = x.slice(/*dim=*/1, 0, 10).argmax(/*dim=*/1);
  for (int step = 0; step < 100; ++step) {
    optimizer.zero_grad();
    auto loss = loss_of(x, y);  // captured and compiled on the first call with these shapes
    loss.backward();            // gradients land in model->parameters()
    optimizer.step();
    if (step % 20 == 0) std::cout << "step " << step << "  loss " << loss.item<float>() << "\n";
  }
  std::cout << loss_of.report();
}
