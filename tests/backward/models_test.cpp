// Models: their gradients, their memory, and many threads.

#include <antegrad/antegrad.h>
#include <antegrad/memory.h>
#include <torch/optim/adamw.h>

#include "common/models.h"
#include "runtime/at_once.h"
#include "scenario.h"

namespace antegrad::testing {
namespace models_test {

// Three steps of training.
template <class Model>
void train(Notes& notes, Model model, const at::Tensor& x, const at::Tensor& y) {
  torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(1e-3));
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    const auto loss = model->loss(x, y);
    loss.backward();
    notes.add("loss", loss);
    for (const auto& parameter : model->parameters()) notes.add("gradient", parameter.grad());
    optimizer.step();
  }
  for (const auto& parameter : model->parameters()) notes.add("parameter", parameter);
  for (const auto& buffer : model->buffers()) notes.add("buffer", buffer);
}

TEST(CompiledBackwardModels, TrainToEagersBits) {
  const auto gpt = expect_as_libtorch(
      [](Notes& notes) {
        const examples::GptConfig config{
            .vocabulary = 32, .layers = 2, .width = 32, .heads = 2, .context = 16, .dropout = 0.1};
        train(notes, examples::Gpt(config), at::randint(32, {2, 16}), at::randint(32, {2, 16}));
      },
      /*times=*/2);
  EXPECT_EQ(gpt.graphs, 1);
  EXPECT_GT(gpt.nodes_compiled * 2, gpt.nodes) << gpt;
  expect_as_libtorch(
      [](Notes& notes) {
        const examples::MlpConfig config{.layers = 3, .width = 32, .dropout = 0.2};
        train(notes, examples::Mlp(config), at::randn({64, 32}), at::randn({64, 32}));
      },
      /*times=*/2);
  expect_as_libtorch(
      [](Notes& notes) {
        const examples::CnnConfig config{.channels = {3, 4, 8}, .image = 16};
        train(notes, examples::Cnn(config), at::randn({4, 3, 16, 16}), at::randint(10, {4}));
      },
      /*times=*/2);
}

// Half of the layers are compiled regions, half run in eager mode.
TEST(CompiledBackwardModels, HalfCompiledHalfEager) {
  expect_as_libtorch([](Notes& notes) {
    const examples::MlpConfig config{.layers = 2, .width = 16, .dropout = 0};
    const examples::Mlp first(config), second(config);
    auto compiled = compile(first, [&](const at::Tensor& in) { return first.ptr()->forward(in); });
    const auto x = at::randn({8, 16});
    for (int step = 0; step < 2; ++step) {
      second.ptr()->forward(compiled(second.ptr()->forward(x))).square().mean().backward();
      for (const auto& model : {first, second}) notes.add_gradients(model.ptr()->parameters());
    }
    EXPECT_EQ(compiled.report().eager_calls, 0);
  });
}

template <class Model>
int64_t peak_of_step(Model& model, const at::Tensor& x, const at::Tensor& y) {
  const auto step = [&] {
    for (const auto& parameter : model->parameters()) parameter.mutable_grad() = at::Tensor();
    model->loss(x, y).backward();
  };
  step();  // compiles
  for (const auto& parameter : model->parameters()) parameter.mutable_grad() = at::Tensor();
  const MemoryMeter meter;
  model->loss(x, y).backward();
  return meter.peak_bytes();
}

// Beside what the engine takes, a little: kernels add columns by thread.
TEST(CompiledBackwardModels, TakeNoMoreMemoryThanTheEngine) {
  constexpr int64_t kSpareBytes = 1 << 16;
  at::manual_seed(0);
  examples::Mlp mlp(examples::MlpConfig{.layers = 4, .width = 128, .dropout = 0.1});
  const auto x = at::randn({256, 128}), y = at::randn({256, 128});
  const auto eager = peak_of_step(mlp, x, y);
  const CompiledBackward scope(exact_backward());
  EXPECT_LE(peak_of_step(mlp, x, y), eager + kSpareBytes);
  examples::Gpt gpt(
      examples::GptConfig{.vocabulary = 64, .layers = 2, .width = 64, .heads = 2, .context = 64});
  const auto tokens = at::randint(64, {4, 64});
  const auto compiled = peak_of_step(gpt, tokens, tokens);
  const EagerBackward as_libtorch;
  EXPECT_LE(compiled, peak_of_step(gpt, tokens, tokens) + kSpareBytes);
}

TEST(CompiledBackwardModels, TrainToEagersBitsOnCuda) {
  if (devices().size() < 2) GTEST_SKIP() << "no CUDA device";
  const auto device = devices()[1];
  const auto report = expect_as_libtorch(
      [&](Notes& notes) {
        const examples::GptConfig config{
            .vocabulary = 32, .layers = 2, .width = 32, .heads = 2, .context = 16};
        examples::Gpt model(config);
        model->to(device);
        for (int step = 0; step < 3; ++step) {
          const auto tokens = at::randint(32, {2, 16}).to(device);
          model->loss(tokens, tokens).backward();
          notes.add_gradients(model->parameters());
        }
      },
      /*times=*/2);
  EXPECT_TRUE(report.left_to_libtorch.empty()) << report;
  EXPECT_GT(report.nodes_compiled * 2, report.nodes) << report;
}

TEST(CompiledBackwardModels, ThreadsRunPassesAtOnce) {
  constexpr int kThreads = 8;
  std::vector<List> expected(kThreads), found(kThreads);
  const auto gradients = [](int thread) {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(thread);
    const auto a = at::randn({16, 8}, generator).requires_grad_();
    const auto b = at::randn({8, 4}, generator).requires_grad_();
    List all;
    for (int i = 0; i < 20; ++i) {
      // Some threads share graphs, and some have their own.
      auto y = a.mm(b);
      for (int k = 0; k < thread % 3; ++k) y = y.tanh();
      y.square().sum().backward();
      all.push_back(a.grad().clone());
      a.mutable_grad() = at::Tensor();
    }
    return all;
  };
  for (int t = 0; t < kThreads; ++t) expected[t] = gradients(t);
  CompiledBackward scope(exact_backward());
  at_once(kThreads, [&](int t) { found[t] = gradients(t); });
  for (int t = 0; t < kThreads; ++t) {
    for (size_t i = 0; i < found[t].size(); ++i) {
      EXPECT_TRUE(same_bits(found[t][i], expected[t][i])) << t << " " << i;
    }
  }
  EXPECT_EQ(scope.report().passes, kThreads * 20);
}

}  // namespace models_test
}  // namespace antegrad::testing
