// Hooks with a state of their own in each call: the gradients that arrive at each layer are clipped
// at a bound that changes, and their norms are noted. One program serves all steps. Beside it, the
// same training in eager mode, with the same bits.

#include <ATen/ATen.h>
#include <antegrad/antegrad.h>
#include <fmt/format.h>
#include <torch/nn.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>

#include <string>
#include <utility>
#include <vector>

namespace {

constexpr int kLayers = 4;

struct ModelImpl : torch::nn::Module {
  ModelImpl() {
    for (int i = 0; i < kLayers; ++i) {
      layers.push_back(register_module("layer" + std::to_string(i), torch::nn::Linear(64, 64)));
    }
  }
  at::Tensor loss(const antegrad::BackwardState& hooks, at::Tensor x, const at::Tensor& y) {
    for (int i = 0; i < kLayers; ++i) {
      x = layers[i](x).tanh();
      hooks.register_hook(x, "layer " + std::to_string(i));  // says where; what is set later
    }
    return (x - y).square().mean();
  }
  std::vector<torch::nn::Linear> layers;
};
TORCH_MODULE(Model);

// Trains for some steps. Returns the norms by layer of each step, the last layer first.
template <class Step>
std::vector<std::vector<double>> train(Model& model, Step& step) {
  torch::manual_seed(1);
  const auto x = at::randn({32, 64}), y = at::rand({32, 64});
  torch::optim::SGD optimizer(model->parameters(), 0.5);
  std::vector<std::vector<double>> norms;
  for (int i = 0; i < 20; ++i) {
    optimizer.zero_grad();
    const antegrad::BackwardState hooks;
    const auto loss = step(hooks, x, y);
    const double bound = 1e-3 / (i + 1);
    norms.emplace_back();
    for (int layer = 0; layer < kLayers; ++layer) {
      hooks.set("layer " + std::to_string(layer), [&, bound](const at::Tensor& gradient) {
        norms.back().push_back(gradient.norm().item<double>());
        return gradient.clamp(-bound, bound);
      });
    }
    loss.backward();
    optimizer.step();
  }
  return norms;
}

}  // namespace

int main() {
  torch::manual_seed(0);
  Model compiled, eager;
  for (const auto& parameter : compiled->named_parameters()) {
    const at::NoGradGuard no_grad;
    eager->named_parameters()[parameter.key()].copy_(parameter.value());
  }
  auto step =
      antegrad::compile(compiled, [&](const antegrad::BackwardState& hooks, const at::Tensor& x,
                                      const at::Tensor& y) { return compiled->loss(hooks, x, y); });
  auto eager_step = [&](const antegrad::BackwardState& hooks, const at::Tensor& x,
                        const at::Tensor& y) { return eager->loss(hooks, x, y); };
  const auto norms = train(compiled, step);
  const bool same = norms == train(eager, eager_step);
  for (const size_t i : {size_t{0}, norms.size() - 1}) {
    fmt::print("step {}, norms of gradients:", i);
    for (int layer = 0; layer < kLayers; ++layer) {
      fmt::print("  layer {} {:.6f}", layer, norms[i][kLayers - 1 - layer]);
    }
    fmt::print("\n");
  }
  fmt::print("programs: {}\n", step.report().programs.size());
  fmt::print("all norms equal those in eager mode: {}\n", same ? "yes" : "no");
  return same ? 0 : 1;
}
