// A training step as one program: forward, backward and the update by AdamW, with a learning rate
// that falls from step to step. Beside it, the same training in eager mode, with the same bits.

#include <ATen/ATen.h>
#include <antegrad/antegrad.h>
#include <fmt/format.h>
#include <torch/nn.h>
#include <torch/optim.h>
#include <torch/utils.h>

#include "common/models.h"

namespace {

using antegrad::examples::Gpt;

struct Training {
  Gpt model;
  torch::optim::AdamW optimizer;
  explicit Training(const Gpt& made)
      : model(made), optimizer(made->parameters(), torch::optim::AdamWOptions(3e-3)) {}
  void set_rate(double rate) {
    static_cast<torch::optim::AdamWOptions&>(optimizer.param_groups()[0].options()).lr(rate);
  }
};

Gpt new_model() {
  torch::manual_seed(0);
  return Gpt(antegrad::examples::GptConfig{
      .vocabulary = 256, .layers = 2, .width = 64, .heads = 4, .context = 32});
}

}  // namespace

int main() {
  Training whole(new_model()), eager(new_model());
  auto step = antegrad::compile_step(
      whole.model, whole.optimizer,
      [model = whole.model](const at::Tensor& x, const at::Tensor& y) mutable {
        return model->loss(x, y);
      });
  const auto tokens = at::randint(256, {8, 32});
  const auto targets = tokens.roll(-1, 1).contiguous();

  bool same = true;
  for (int i = 0; i < 10; ++i) {
    for (auto* training : {&whole, &eager}) training->set_rate(3e-3 / (1 + i));
    torch::manual_seed(i);
    const auto loss = step(tokens, targets);
    torch::manual_seed(i);
    eager.model->zero_grad();
    const auto expected = eager.model->loss(tokens, targets);
    expected.backward();
    eager.optimizer.step();
    same = same && at::equal(loss, expected);
    fmt::print("step {}: loss {:.6f}, eager {:.6f}\n", i, loss.item<double>(),
               expected.item<double>());
  }
  for (size_t i = 0; i < whole.model->parameters().size(); ++i) {
    same = same && at::equal(whole.model->parameters()[i], eager.model->parameters()[i]);
  }
  fmt::print("{} program; the bits are {}\n", step.report().programs.size(),
             same ? "eager's" : "others than eager's");
  return same && step.report().eager_calls == 0 ? 0 : 1;
}
