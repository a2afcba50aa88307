// Compiled backward: the forward of a model runs in eager mode, its backward passes as programs.
// A hook updates each parameter as soon as its gradient is there, so gradients are never all in
// memory. Beside it, the same training by libtorch's engine, with the same bits.

#include <ATen/ATen.h>
#include <antegrad/antegrad.h>
#include <antegrad/compiled_backward.h>
#include <antegrad/memory.h>
#include <fmt/format.h>
#include <fmt/ostream.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/nn.h>
#include <torch/utils.h>

#include <optional>
#include <sstream>

#include "common/models.h"

namespace {

using antegrad::examples::Mlp;

constexpr double kRate = 0.05;

// Updates a parameter once its gradient is there, and frees the gradient.
struct Update : torch::autograd::PostAccumulateGradHook {
  void operator()(const at::Tensor& parameter) override {
    const at::NoGradGuard no_grad;
    parameter.sub_(parameter.grad(), kRate);
    parameter.mutable_grad() = at::Tensor();
  }
};

Mlp new_model() {
  torch::manual_seed(0);
  Mlp model(antegrad::examples::MlpConfig{.layers = 8, .width = 512, .dropout = 0.1});
  for (const auto& parameter : model->parameters()) {
    torch::autograd::impl::set_post_acc_grad_hooks(parameter, std::make_unique<Update>());
  }
  return model;
}

// Trains for some steps. Returns the last loss and the memory of the last step.
std::pair<double, double> train(Mlp& model) {
  torch::manual_seed(1);
  const auto x = at::randn({32, 512}), y = at::randn({32, 512});
  double loss = 0;
  double peak = 0;
  for (int step = 0; step < 10; ++step) {
    for (const auto& parameter : model->parameters()) parameter.mutable_grad() = at::Tensor();
    const antegrad::MemoryMeter meter;
    const auto value = model->loss(x, y);
    value.backward();
    loss = value.item<double>();
    peak = static_cast<double>(meter.peak_bytes());
  }
  return {loss, peak};
}

}  // namespace

int main() {
  auto compiled = new_model(), eager = new_model(), all_gradients = new_model();
  for (const auto& parameter : all_gradients->parameters()) {
    torch::autograd::impl::post_acc_grad_hooks(parameter).reset();
  }
  antegrad::CompiledBackward scope;
  const auto [loss, peak] = train(compiled);
  const auto [loss_of_engine, peak_of_engine] = [&] {
    const antegrad::EagerBackward by_libtorch;
    return train(eager);
  }();
  const auto [ignored, peak_with_gradients] = train(all_gradients);

  bool same = loss == loss_of_engine;
  for (size_t i = 0; i < eager->parameters().size(); ++i) {
    same = same && at::equal(compiled->parameters()[i], eager->parameters()[i]);
  }
  constexpr double kMiB = 1 << 20;
  fmt::print("loss {:.6f}, by libtorch's engine {:.6f}; parameters are {}\n", loss, loss_of_engine,
             same ? "the same bits" : "DIFFERENT");
  fmt::print("peak of a step {:.1f} MiB, by the engine {:.1f}, with all gradients {:.1f}\n",
             peak / kMiB, peak_of_engine / kMiB, peak_with_gradients / kMiB);
  std::ostringstream report;
  report << scope.report();
  fmt::print("{}", report.str());
  return same && peak <= peak_of_engine * 1.02 ? 0 : 1;
}
