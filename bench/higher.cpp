// Steps whose loss contains gradients of a compiled model, taken outside with create_graph, beside
// the same steps in eager.

#include <ATen/ATen.h>
#include <antegrad/antegrad.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/modules/linear.h>
#include <torch/utils.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/harness.h"
#include "common/step_rows.h"

namespace antegrad::bench {
namespace {

using Activation = at::Tensor (*)(const at::Tensor&);
using Call = std::function<at::Tensor(const at::Tensor&)>;

struct Net : torch::nn::Module {
  Net(int64_t in, int64_t width, int64_t depth, Activation activation) : activation(activation) {
    for (int64_t i = 0; i < depth; ++i) {
      layers.push_back(register_module("layer" + std::to_string(i),
                                       torch::nn::Linear(i == 0 ? in : width, width)));
    }
    last = register_module("last", torch::nn::Linear(width, 1));
  }
  at::Tensor forward(const at::Tensor& x) {
    auto h = x;
    for (auto& layer : layers) h = activation(layer(h));
    return last(h);
  }
  Activation activation;
  std::vector<torch::nn::Linear> layers;
  torch::nn::Linear last = nullptr;
};

at::Tensor slope(const at::Tensor& of, const at::Tensor& by) {
  return torch::autograd::grad({of}, {by}, {at::ones_like(of)}, /*retain_graph=*/true,
                               /*create_graph=*/true)[0];
}

// A critic with a gradient penalty.
at::Tensor critic_loss(const Call& critic) {
  const auto real = at::randn({1024, 64}), fake = at::rand({1024, 64});
  const auto share = at::rand({1024, 1});
  const auto between = (share * real + (1 - share) * fake).requires_grad_();
  const auto penalty = (slope(critic(between), between).norm(2, 1) - 1).pow(2).mean();
  return critic(fake).mean() - critic(real).mean() + 10 * penalty;
}

// The residual of a heat equation, with a second derivative.
at::Tensor heat_loss(const Call& model) {
  const auto points = at::rand({4096, 2}).requires_grad_();
  const auto slopes = slope(model(points), points);
  const auto second = slope(slopes.select(1, 1), points);
  return (slopes.select(1, 0) - 0.1 * second.select(1, 1)).square().mean();
}

void measure(Bench& bench, const std::string& name, const std::shared_ptr<Net>& net,
             at::Tensor (*loss)(const Call&)) {
  const auto clear = [&] {
    for (const auto& parameter : net->parameters()) parameter.mutable_grad() = at::Tensor();
  };
  const auto step_with = [&](const Call& call) {
    return [&clear, loss, call] {
      clear();
      loss(call).backward();
    };
  };
  const auto eager = step_with([net](const at::Tensor& x) { return net->forward(x); });
  for (const auto level : {Lowering::exact, Lowering::close}) {
    const std::string prefix = level == Lowering::exact ? "exact_" : "close_";
    auto compiled = compile(
        [net](const at::Tensor& x) { return net->forward(x); },
        Options().with_name(name).with_lowering(level).with_higher_derivatives(true).with_audit(
            Audit::off));
    const auto step = step_with([&](const at::Tensor& x) { return compiled(x); });
    add_step_rows(bench, name, prefix, 15, {step, eager, clear});
    AG_CHECK(compiled.report().eager_calls == 0, "a call ran eagerly");
  }
}

}  // namespace
}  // namespace antegrad::bench

int main(int argc, char** argv) {
  using namespace antegrad::bench;
  return run_bench([&] {
    Bench bench("higher", argc, argv);
    torch::manual_seed(0);
    if (bench.wants("critic")) {
      measure(bench, "critic",
              std::make_shared<Net>(64, 512, 3, [](const at::Tensor& x) { return at::silu(x); }),
              critic_loss);
    }
    if (bench.wants("heat")) {
      measure(bench, "heat",
              std::make_shared<Net>(2, 128, 4, [](const at::Tensor& x) { return x.tanh(); }),
              heat_loss);
    }
  });
}
