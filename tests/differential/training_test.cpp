// Fifty training steps of real models, compared with eager bit for bit.

#include <ATen/ATen.h>
#include <common/models.h>
#include <common/vit.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>

#include "support/parity.h"

namespace antegrad::testing {
namespace training_test {

using namespace antegrad::examples;

constexpr int kSteps = 50;

std::unique_ptr<torch::optim::Optimizer> adamw(const torch::nn::Module& module) {
  return std::make_unique<torch::optim::AdamW>(module.parameters(),
                                               torch::optim::AdamWOptions(1e-3));
}
std::unique_ptr<torch::optim::Optimizer> momentum(const torch::nn::Module& module) {
  return std::make_unique<torch::optim::SGD>(module.parameters(),
                                             torch::optim::SGDOptions(0.01).momentum(0.9));
}

// A trainee around a module holder with a loss(x, y).
template <class Holder>
Trainee trainee(Holder model,
                std::unique_ptr<torch::optim::Optimizer> (*optimizer)(const torch::nn::Module&)) {
  return {model.ptr(),
          [model](const at::Tensor& x, const at::Tensor& y) mutable { return model->loss(x, y); },
          optimizer};
}

// A generator of its own, so that batches do not depend on what the models draw.
at::Generator batch_generator(int step) {
  auto generator = at::globalContext().defaultGenerator(at::kCPU).clone();
  generator.set_current_seed(static_cast<uint64_t>(1000 + step));
  return generator;
}

Batch tokens(int step) {
  auto g = batch_generator(step);
  return {at::randint(64, {2, 16}, g), at::randint(64, {2, 16}, g)};
}
Batch rows(int step) {
  auto g = batch_generator(step);
  return {at::randn({8, 32}, g), at::randn({8, 32}, g)};
}
Batch images(int step) {
  auto g = batch_generator(step);
  return {at::randn({4, 3, 16, 16}, g), at::randint(10, {4}, g)};
}

GptConfig small_gpt(double dropout) {
  GptConfig config;
  config.vocabulary = 64;
  config.layers = 2;
  config.width = 32;
  config.heads = 4;
  config.context = 16;
  config.dropout = dropout;
  return config;
}

class Training : public ::testing::TestWithParam<c10::Device> {};

TEST_P(Training, Gpt) {
  expect_training_parity([] { return trainee(Gpt(small_gpt(0)), adamw); }, tokens, kSteps,
                         GetParam());
}

TEST_P(Training, GptWithDropout) {
  expect_training_parity([] { return trainee(Gpt(small_gpt(0.1)), adamw); }, tokens, kSteps,
                         GetParam());
}

TEST_P(Training, MlpWithDropout) {
  MlpConfig config;
  config.layers = 3;
  config.width = 32;
  expect_training_parity([=] { return trainee(Mlp(config), momentum); }, rows, kSteps, GetParam());
}

TEST_P(Training, CnnWithBatchNormAndDropout) {
  CnnConfig config;
  config.channels = {3, 8, 16};
  config.image = 16;
  config.dropout = 0.1;
  expect_training_parity([=] { return trainee(Cnn(config), momentum); }, images, kSteps,
                         GetParam());
}

TEST_P(Training, VitWithDropout) {
  const VitConfig config{.image = 16, .layers = 2, .width = 32, .heads = 4, .dropout = 0.1};
  expect_training_parity([=] { return trainee(Vit(config), adamw); }, images, kSteps, GetParam());
}

TEST_P(Training, GptInBfloat16) {
  const auto make = [] {
    auto model = Gpt(small_gpt(0.1));
    model->to(at::kBFloat16);
    return trainee(model, momentum);
  };
  expect_training_parity(make, tokens, 5, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Devices, Training, ::testing::ValuesIn(devices()), [](const auto& info) {
  return std::string(info.param.is_cpu() ? "Cpu" : "Cuda");
});

}  // namespace training_test
}  // namespace antegrad::testing
