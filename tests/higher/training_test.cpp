// Training steps with gradients of gradients through a compiled model, beside eager ones.

#include <ATen/ATen.h>
#include <antegrad/antegrad.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/functional/batchnorm.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>

#include <functional>
#include <memory>
#include <vector>

#include "higher/orders.h"
#include "support/bits.h"

namespace antegrad::testing {
namespace {

using torch::autograd::grad;
using Model = std::function<at::Tensor(const at::Tensor&)>;

Options higher(Lowering lowering) {
  return Options()
      .with_verify_graphs(true)
      .with_lowering(lowering)
      .with_keep_slow_kernels(true)
      .with_higher_derivatives(true);
}

struct NetImpl : torch::nn::Module {
  NetImpl(int64_t in, int64_t out, bool with_norm = false, double p = 0)
      : first(register_module("first", torch::nn::Linear(in, 32))),
        second(register_module("second", torch::nn::Linear(32, 32))),
        third(register_module("third", torch::nn::Linear(32, out))),
        drop(register_module("drop", torch::nn::Dropout(p))) {
    if (with_norm) norm = register_module("norm", torch::nn::BatchNorm1d(32));
  }
  at::Tensor forward(const at::Tensor& x) {
    auto h = first(x).tanh();
    if (norm) h = norm(h);
    h = drop(at::silu(second(h)));
    return third(h);
  }
  torch::nn::Linear first, second, third;
  torch::nn::Dropout drop;
  torch::nn::BatchNorm1d norm = nullptr;
};
TORCH_MODULE(Net);

// A loss of a step, computed outside of the model.
using Loss = std::function<at::Tensor(const Model& model, const std::shared_ptr<NetImpl>& net)>;

struct Trained {
  std::vector<at::Tensor> losses, state;
};

Trained train(const Net& net, const Model& model, const Loss& loss, int steps) {
  at::manual_seed(21);
  torch::optim::Adam optimizer(net->parameters(), torch::optim::AdamOptions(1e-2));
  Trained trained;
  for (int step = 0; step < steps; ++step) {
    optimizer.zero_grad();
    const auto found = loss(model, net.ptr());
    found.backward();
    trained.losses.push_back(found.detach());
    optimizer.step();
  }
  for (const auto& parameter : net->parameters()) trained.state.push_back(parameter.detach());
  for (const auto& buffer : net->buffers()) trained.state.push_back(buffer);
  trained.state.push_back(generator_state());
  return trained;
}

void expect_training_as_eager(const std::function<Net()>& make, const Loss& loss,
                              int64_t most_programs) {
  constexpr int kSteps = 8;
  const auto fresh = [&] {
    at::manual_seed(5);
    return make();
  };
  auto net = fresh();
  const auto eager = train(
      net, [&](const at::Tensor& x) { return net->forward(x); }, loss, kSteps);
  for (const auto lowering : {Lowering::off, Lowering::exact}) {
    auto other = fresh();
    auto compiled = compile(
        [other = other.ptr()](const at::Tensor& x) { return other->forward(x); }, higher(lowering));
    const auto found = train(
        other, [&](const at::Tensor& x) { return compiled(x); }, loss, kSteps);
    EXPECT_TRUE(same_bits(found.losses, eager.losses));
    EXPECT_TRUE(same_bits(found.state, eager.state));
    const auto report = compiled.report();
    EXPECT_EQ(report.eager_calls, 0);
    EXPECT_LE(static_cast<int64_t>(report.programs.size()), most_programs);
  }
}

at::Tensor gradient(const at::Tensor& of, const at::Tensor& by) {
  return grad({of}, {by}, {at::ones_like(of)}, /*retain_graph=*/true, /*create_graph=*/true)[0];
}

// Gulrajani et al., Improved Training of Wasserstein GANs, 2017.
at::Tensor gradient_penalty(const Model& critic, const std::shared_ptr<NetImpl>& /*net*/) {
  const auto real = at::randn({16, 8}), fake = at::rand({16, 8});
  const auto share = at::rand({16, 1});
  const auto between = (share * real + (1 - share) * fake).requires_grad_();
  const auto slope = gradient(critic(between), between);
  const auto penalty = (slope.norm(2, 1) - 1).pow(2).mean();
  return critic(fake).mean() - critic(real).mean() + 10 * penalty;
}

TEST(HigherTraining, AWassersteinCriticWithGradientPenalty) {
  expect_training_as_eager([] { return Net(8, 1); }, gradient_penalty, 3);
}

TEST(HigherTraining, TheSameWithDropoutWhichDrawsTheSameNumbers) {
  expect_training_as_eager([] { return Net(8, 1, false, 0.3); }, gradient_penalty, 3);
}

TEST(HigherTraining, RunningStatisticsAreWrittenOnceACall) {
  expect_training_as_eager([] { return Net(8, 1, /*with_norm=*/true); }, gradient_penalty, 3);
}

// The residual of u_t + u u_x = 0.1 u_xx, and data: results and gradients of two orders of the same
// call meet in one loss.
TEST(HigherTraining, APhysicsInformedLossOfTheSecondOrder) {
  expect_training_as_eager([] { return Net(2, 1); },
                           [](const Model& model, const std::shared_ptr<NetImpl>&) {
                             const auto points = at::rand({32, 2}).requires_grad_();
                             const auto u = model(points);
                             const auto slopes = gradient(u, points);
                             const auto u_t = slopes.select(1, 0), u_x = slopes.select(1, 1);
                             const auto u_xx = gradient(u_x, points).select(1, 1);
                             const auto residual = u_t + u.squeeze(1) * u_x - 0.1 * u_xx;
                             return residual.square().mean() +
                                    (u - points.sum(1, true).sin()).square().mean();
                           },
                           3);
}

// Finn et al., Model-Agnostic Meta-Learning, 2017: the inner loss is computed outside, so tangents
// depend on results.
TEST(HigherTraining, AStepInsideOfAStep) {
  const auto weights = [](const std::shared_ptr<NetImpl>& net) { return net->parameters(); };
  expect_training_as_eager([] { return Net(4, 1); },
                           [&](const Model& model, const std::shared_ptr<NetImpl>& net) {
                             const auto x = at::randn({16, 4});
                             const auto y = model(x);
                             const auto inner = (y - x.sum(1, true)).square().mean();
                             const auto gradients =
                                 grad({inner}, weights(net), {}, true, /*create_graph=*/true);
                             auto norm = at::zeros({});
                             for (const auto& found : gradients) norm = norm + found.square().sum();
                             return inner + 0.1 * norm;
                           },
                           2);
}

TEST(HigherTraining, BackwardWithCreateGraph) {
  expect_training_as_eager([] { return Net(4, 1); },
                           [](const Model& model, const std::shared_ptr<NetImpl>&) {
                             const auto x = at::randn({16, 4}).requires_grad_();
                             model(x).sum().backward({}, /*retain_graph=*/true,
                                                     /*create_graph=*/true);
                             const auto slope = x.grad();
                             x.mutable_grad() = at::Tensor();
                             return slope.square().mean();
                           },
                           2);
}

TEST(HigherTraining, OnCuda) {
  if (devices().size() < 2) GTEST_SKIP() << "no CUDA device";
  const auto device = devices()[1];
  expect_training_as_eager(
      [&] {
        Net net(8, 1, /*with_norm=*/true, 0.3);
        net->to(device);
        return net;
      },
      [&](const Model& model, const std::shared_ptr<NetImpl>& net) {
        return gradient_penalty([&](const at::Tensor& x) { return model(x.to(device)).cpu(); },
                                net);
      },
      3);
}

TEST(HigherTraining, UnderCompiledBackward) {
  const CompiledBackward scope(Options().with_lowering(Lowering::off));
  expect_training_as_eager([] { return Net(8, 1); }, gradient_penalty, 3);
}

TEST(HigherTraining, HundredStepsKeepTheProgramsOfTheFirst) {
  at::manual_seed(5);
  const Net net(8, 1);
  auto compiled = compile([net = net.ptr()](const at::Tensor& x) { return net->forward(x); },
                          higher(Lowering::exact));
  for (int step = 0; step < 100; ++step) {
    gradient_penalty([&](const at::Tensor& x) { return compiled(x); }, net.ptr()).backward();
  }
  int64_t derivatives = 0;
  for (const auto& program : compiled.report().programs) derivatives += program.derivative > 0;
  EXPECT_EQ(derivatives, 1);
  EXPECT_EQ(compiled.report().eager_calls, 0);
}

}  // namespace
}  // namespace antegrad::testing
