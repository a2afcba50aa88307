// Models that train as CUDA graphs (Options::gpu_graphs): the bits of eager mode. Skipped without a
// GPU.

#include <torch/optim.h>
#include <torch/utils.h>

#include <functional>
#include <utility>
#include <vector>

#include "common/models.h"
#include "gpu_graphs.h"
#include "support/bits.h"

namespace antegrad::testing {
namespace gpu_graphs_training_test {

using ModelLoss = std::function<at::Tensor(at::Tensor, at::Tensor)>;

// A model on the GPU, made anew with the same weights, its loss, and a batch for each step.
struct Training {
  std::shared_ptr<torch::nn::Module> module;
  ModelLoss loss;
  std::function<std::pair<at::Tensor, at::Tensor>(int step)> batch;
};

template <class Model>
Training training(Model model, at::ScalarType type,
                  std::function<std::pair<at::Tensor, at::Tensor>(int)> batch) {
  model->to(at::kCUDA, type);
  return {model.ptr(), [model](at::Tensor x, at::Tensor y) mutable { return model->loss(x, y); },
          std::move(batch)};
}

Training mlp(at::ScalarType type) {
  return training(examples::Mlp(examples::MlpConfig{.layers = 4, .width = 64, .dropout = 0}), type,
                  [=](int) {
                    return std::pair(on_gpu({32, 64}).to(type), on_gpu({32, 64}).to(type));
                  });
}

Training gpt(at::ScalarType type) {
  const examples::GptConfig config{
      .vocabulary = 256, .layers = 2, .width = 128, .heads = 4, .context = 64};
  return training(examples::Gpt(config), type, [](int) {
    const auto tokens = at::randint(256, {4, 33}, at::device(at::kCUDA).dtype(at::kLong));
    return std::pair(tokens.narrow(1, 0, 32).contiguous(), tokens.narrow(1, 1, 32).contiguous());
  });
}

Training cnn(at::ScalarType type) {
  return training(examples::Cnn(examples::CnnConfig{}), type, [=](int) {
    return std::pair(on_gpu({16, 3, 32, 32}).to(type),
                     at::randint(10, {16}, at::device(at::kCUDA).dtype(at::kLong)));
  });
}

// Losses, then parameters and buffers, after steps of plain gradient descent. Gradients are added
// up over `accumulated` steps each.
template <class Step>
List trained_by(Step& step, const Training& training, int steps, int accumulated) {
  List seen;
  for (int i = 0; i < steps; ++i) {
    torch::manual_seed(100 + i);
    const auto [x, y] = training.batch(i);
    const at::Tensor loss = step(x, y);
    loss.backward();
    seen.push_back(loss.detach());
    if ((i + 1) % accumulated != 0) continue;
    const at::NoGradGuard no_grad;
    for (auto& parameter : training.module->parameters()) {
      parameter.sub_(parameter.grad(), 0.05);
      accumulated > 1 && i % 3 == 0 ? (void)parameter.grad().zero_()
                                    : (void)parameter.mutable_grad().reset();
    }
  }
  for (const auto& parameter : training.module->parameters()) seen.push_back(parameter.detach());
  for (const auto& buffer : training.module->buffers()) seen.push_back(buffer);
  return seen;
}

class GpuGraphTraining : public GpuGraphsTest {
 protected:
  static void expect_eager_bits(const std::function<Training(at::ScalarType)>& make,
                                at::ScalarType type, int accumulated = 1) {
    constexpr int kSteps = 20;
    torch::manual_seed(0);
    const auto eager = make(type);
    const auto expected = trained_by(eager.loss, eager, kSteps, accumulated);
    torch::manual_seed(0);
    const auto ours = make(type);
    auto step = compile(ours.module, ours.loss, with_graphs());
    const auto found = trained_by(step, ours, kSteps, accumulated);
    EXPECT_TRUE(same_bits(found, expected)) << step.report();
    EXPECT_EQ(step.report().eager_calls, 0);
    EXPECT_GE(forward(step).replays, kSteps / 2) << step.report();
    EXPECT_GE(backward(step).replays, kSteps / 3) << step.report();
    EXPECT_GT(forward(step).bytes, 0);
  }
};

TEST_F(GpuGraphTraining, MlpHasEagerBits) {
  expect_eager_bits(mlp, at::kFloat);
  expect_eager_bits(mlp, at::kBFloat16);
}

TEST_F(GpuGraphTraining, GptHasEagerBits) {
  expect_eager_bits(gpt, at::kFloat);
  expect_eager_bits(gpt, at::kBFloat16);
}

TEST_F(GpuGraphTraining, CnnHasEagerBits) { expect_eager_bits(cnn, at::kFloat); }

TEST_F(GpuGraphTraining, GradientsThatAddUp) {
  expect_eager_bits(mlp, at::kFloat, 2);
  expect_eager_bits(gpt, at::kBFloat16, 4);
}

TEST_F(GpuGraphTraining, CloseKernelsRunInGraphs) {
  torch::manual_seed(0);
  const auto plain = gpt(at::kBFloat16);
  auto nodes =
      compile(plain.module, plain.loss,
              with_graphs().with_lowering(Lowering::close).with_gpu_graphs(GpuGraphs::off));
  const auto expected = trained_by(nodes, plain, 12, 1);
  torch::manual_seed(0);
  const auto ours = gpt(at::kBFloat16);
  auto step = compile(ours.module, ours.loss, with_graphs().with_lowering(Lowering::close));
  EXPECT_TRUE(same_bits(trained_by(step, ours, 12, 1), expected)) << step.report();
  EXPECT_GT(forward(step).replays, 0) << step.report();
  EXPECT_GT(backward(step).replays, 0) << step.report();
}

TEST_F(GpuGraphTraining, WholeSteps) {
  const auto trained = [](bool compiled) {
    torch::manual_seed(0);
    const auto ours = mlp(at::kFloat);
    torch::optim::SGD optimizer(ours.module->parameters(),
                                torch::optim::SGDOptions(0.05).momentum(0.9));
    auto step = compile_step(ours.module, optimizer, ours.loss, with_graphs());
    List seen;
    for (int i = 0; i < 12; ++i) {
      torch::manual_seed(100 + i);
      const auto [x, y] = ours.batch(i);
      if (compiled) {
        const at::Tensor loss = step(x, y);
        seen.push_back(loss);
        continue;
      }
      optimizer.zero_grad();
      const at::Tensor loss = ours.loss(x, y);
      loss.backward();
      optimizer.step();
      seen.push_back(loss.detach());
    }
    for (const auto& parameter : ours.module->parameters()) seen.push_back(parameter.detach());
    return seen;
  };
  EXPECT_TRUE(same_bits(trained(true), trained(false)));
}

}  // namespace gpu_graphs_training_test
}  // namespace antegrad::testing
