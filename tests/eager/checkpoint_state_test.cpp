// The state around checkpointed blocks when they are recomputed: generators, autocast, buffers; and
// the errors if something changed.

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/autocast_mode.h>

#include <stdexcept>
#include <thread>

#include "eager/runner.h"

namespace antegrad::testing {
namespace checkpoint_state_test {

// ---- generators ---------------------------------------------------------------------------------

TEST(CheckpointRandom, TheGeneratorIsWhereEagerLeavesItAfterEachStep) {
  const auto states = [](bool checkpoints) {
    const Runner run(checkpoints);
    torch::manual_seed(5);
    const auto x = leaf({100});
    List states;
    const auto y = run([](const at::Tensor& x) { return at::dropout(x.sin(), 0.5, true); }, x);
    states.push_back(generator_state());
    at::rand({7});
    y.sum().backward();
    states.push_back(generator_state());
    EXPECT_EQ(run.runs(), checkpoints ? 2 : 1);
    return states + grads({x});
  };
  EXPECT_TRUE(same_bits(states(false), states(true)));
}

TEST(CheckpointRandom, OwnGeneratorsAreFoundByTheOperatorsThatDrawFromThem) {
  expect_like_eager(
      [](const Runner& run) {
        auto own = at::make_generator<at::CPUGeneratorImpl>(11);
        const auto x = leaf({50});
        const auto y = run([own](const at::Tensor& x) { return x.sin() * at::rand({50}, own); }, x);
        at::rand({3}, own);
        y.sum().backward();
        return grads({x}) + List{y, own.get_state()};
      },
      1);
}

TEST(CheckpointRandom, GeneratorsThatTheBlockCreatesAreItsOwn) {
  expect_like_eager(
      [](const Runner& run) {
        const auto x = leaf({50});
        const auto y = run(
            [](const at::Tensor& x) {
              const auto own = at::make_generator<at::CPUGeneratorImpl>(11);
              return x.sin() * at::rand({50}, own);
            },
            x);
        y.sum().backward();
        return grads({x}) + List{y};
      },
      1);
}

TEST(CheckpointRandom, GeneratorsOfTheOptionsAreReplayedToo) {
  expect_like_eager(
      [](const Runner& run) {
        auto own = at::make_generator<at::CPUGeneratorImpl>(11);
        const auto x = leaf({50});
        CheckpointOptions options;
        options.generators = {own};
        const auto y = run.with(
            options,
            [own](const at::Tensor& x) {
              auto* numbers = at::check_generator<at::CPUGeneratorImpl>(own);
              const std::lock_guard lock(numbers->mutex_);
              return x.sin() * static_cast<double>(numbers->random() % 1000);
            },
            x);
        y.sum().backward();
        return grads({x}) + List{y, own.get_state()};
      },
      1);
}

TEST(CheckpointRandom, DrawingOtherNumbersTheSecondTimeIsAnError) {
  const auto x = leaf({4});
  int runs = 0;
  const auto y = checkpoint(
      [&runs](const at::Tensor& x) { return x.sin() * at::rand({++runs == 1 ? 4 : 1}); }, x);
  const auto state = generator_state();
  EXPECT_THROW(y.sum().backward(), BackwardError);
  EXPECT_TRUE(same_bits(state, generator_state()));
}

// ---- autocast -----------------------------------------------------------------------------------

// As torch.autocast.
class AutocastOn {
 public:
  explicit AutocastOn(bool caches = true) {
    at::autocast::increment_nesting();
    at::autocast::set_autocast_cache_enabled(caches);
    at::autocast::set_autocast_enabled(at::kCPU, true);
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
  }
  ~AutocastOn() {
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_cache_enabled(true);
    at::autocast::set_autocast_enabled(at::kCPU, false);
  }
};

struct Autocast : ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Caches, Autocast, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "cached" : "uncached"; });

TEST_P(Autocast, ParametersThatSeveralBlocksShare) {
  expect_like_eager(
      [](const Runner& run) {
        const auto w = leaf({32, 32}), v = leaf({32, 32});
        const auto x = leaf({16, 32});
        const auto block = [w, v](const at::Tensor& x) {
          return x + at::matmul(at::matmul(x, w).relu(), v).matmul(w);
        };
        at::Tensor y;
        {
          const AutocastOn autocast(GetParam());
          y = run(block, run(block, x));
          y = at::matmul(y, w);
        }
        y.to(at::kFloat).pow(2).sum().backward();
        EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
        return List{y} + grads({w, v, x});
      },
      2);
}

TEST_P(Autocast, BackwardInsideTheRegion) {
  expect_like_eager(
      [](const Runner& run) {
        const auto w = leaf({32, 32});
        const auto x = leaf({16, 32});
        const auto block = [w](const at::Tensor& x) { return at::matmul(x, w).sin(); };
        const AutocastOn autocast(GetParam());
        const auto y = at::matmul(run(block, at::matmul(x, w)), w);
        y.to(at::kFloat).pow(2).sum().backward();
        return List{y} + grads({w, x});
      },
      1);
}

TEST_P(Autocast, AStepLeavesNoCastOfAParameterBehind) {
  const auto w = leaf({32, 32});
  const auto x = leaf({16, 32});
  const auto step = [&] {
    at::Tensor y;
    {
      const AutocastOn autocast(GetParam());
      y = checkpoint([w](const at::Tensor& x) { return at::matmul(x, w); }, x);
    }
    y.to(at::kFloat).sum().backward();
    return y;
  };
  step();
  {
    const at::NoGradGuard no_grad;
    w.mul_(2);
  }
  const auto expected = at::matmul(x.to(at::kBFloat16), w.to(at::kBFloat16));
  EXPECT_TRUE(same_bits(step(), expected));
}

TEST(CheckpointAutocast, OnInsideTheBlock) {
  expect_like_eager(
      [](const Runner& run) {
        const auto w = leaf({32, 32});
        const auto x = leaf({16, 32});
        const auto block = [w](const at::Tensor& x) {
          const AutocastOn autocast;
          return at::matmul(at::matmul(x, w), w).to(at::kFloat);
        };
        const auto y = run(block, x);
        y.sum().backward();
        return List{y} + grads({w, x});
      },
      1);
}

// ---- threads ------------------------------------------------------------------------------------

TEST(CheckpointThreads, TheBackwardPassMayRunOnAnother) {
  expect_like_eager(
      [](const Runner& run) {
        const auto w = leaf({32, 32});
        const auto x = leaf({16, 32});
        at::Tensor y;
        {
          const AutocastOn autocast;
          y = run([w](const at::Tensor& x) { return at::dropout(x.matmul(w), 0.5, true).sin(); },
                  x * 2);
        }
        std::thread([&] { y.to(at::kFloat).sum().backward(); }).join();
        return List{y, at::rand({3})} + grads({w, x});
      },
      1);
}

TEST(CheckpointThreads, ManyAtOnce) {
  const auto w = leaf({16, 16});
  const auto gradients = [w](bool checkpoints) {
    const Runner run(checkpoints);
    auto own = at::make_generator<at::CPUGeneratorImpl>(11);
    auto y = at::ones({4, 16});
    for (int i = 0; i < 20; ++i) {
      y = run(
          [w, own](const at::Tensor& x) {
            return (x.matmul(w) * at::rand({4, 16}, own)).sin();
          },
          y);
    }
    return torch::autograd::grad({y.sum()}, {w})[0];
  };
  const auto expected = gradients(false);
  List found(4);
  std::vector<std::thread> threads;
  for (auto& each : found) threads.emplace_back([&] { each = gradients(true); });
  for (auto& thread : threads) thread.join();
  for (const auto& each : found) EXPECT_TRUE(same_bits(expected, each));
}

TEST(CheckpointThreads, PassesOverOneRetainedGraph) {
  const auto w = leaf({16, 16});
  const auto x = at::randn({4, 16});
  const auto y = checkpoint([w](const at::Tensor& x) { return x.matmul(w).sin(); }, x).sum();
  const auto expected = torch::autograd::grad({x.matmul(w).sin().sum()}, {w})[0];
  List found(4);
  std::vector<std::thread> threads;
  for (auto& each : found) {
    threads.emplace_back([&] { each = torch::autograd::grad({y}, {w}, {}, true)[0]; });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& each : found) EXPECT_TRUE(same_bits(expected, each));
}

// ---- buffers ------------------------------------------------------------------------------------

TEST(CheckpointBuffers, RunningStatisticsAreWrittenOnce) {
  expect_like_eager(
      [](const Runner& run) {
        const auto norm = torch::nn::BatchNorm1d(8).ptr();
        const auto linear = torch::nn::Linear(8, 8).ptr();
        const auto x = leaf({16, 8});
        const auto block = [norm, linear](const at::Tensor& x) {
          return norm->forward(linear->forward(x)).relu();
        };
        auto y = x;
        for (int i = 0; i < 3; ++i) y = run(block, y);
        y.pow(2).sum().backward();
        List all;
        for (const auto& b : norm->buffers()) all.push_back(b.clone());
        return all + grads(norm->parameters()) + grads(linear->parameters()) + grads({x});
      },
      3);
}

TEST(CheckpointBuffers, WhatTheBlockComputesFromABufferThatItWrites) {
  // A power iteration, as in spectral normalisation.
  expect_like_eager(
      [](const Runner& run) {
        const auto w = leaf({8, 8});
        const auto u = at::randn({2, 8});
        const auto x = leaf({4, 8});
        const auto block = [w, u](const at::Tensor& x) {
          auto row = u[1];
          {
            const at::NoGradGuard no_grad;
            const auto v = at::mv(w.t(), row);
            row.copy_(at::mv(w, v / v.norm()) / 3);
          }
          const auto now = row.clone();
          return x.matmul(w / at::dot(now, at::mv(w, now))).tanh();
        };
        auto y = run(block, run(block, x));
        u.add_(1);  // a write from outside
        y.sum().backward();
        return List{u.clone()} + grads({w, x});
      },
      2);
}

TEST(CheckpointBuffers, ThatACompiledFunctionWrites) {
  expect_like_eager(
      [](const Runner& run) {
        const auto norm = torch::nn::BatchNorm1d(8).ptr();
        const auto mean = at::zeros({8});
        auto compiled = compile([norm, mean](const at::Tensor& x) {
          mean.mul_(0.9).add_(x.detach().mean(0));
          return norm->forward(x - mean).relu();
        });
        const auto x = leaf({16, 8});
        const auto block = [&compiled](const at::Tensor& x) { return compiled(x.sin()); };
        run(block, run(block, x)).pow(2).sum().backward();
        EXPECT_EQ(compiled.report().eager_calls, 0);
        List all{mean.clone()};
        for (const auto& b : norm->buffers()) all.push_back(b.clone());
        return all + grads(norm->parameters()) + grads({x});
      },
      2);
}

TEST(CheckpointBuffers, VersionsOfWrittenBuffersAreThoseOfOneForward) {
  const auto count = at::zeros({2});
  const auto version = count._version();
  const auto x = leaf({2});
  const auto y = checkpoint(
      [count](const at::Tensor& x) {
        count.add_(1);
        return x.sin() * count;
      },
      x);
  EXPECT_EQ(count._version(), version + 1);
  y.sum().backward();
  EXPECT_EQ(count._version(), version + 1);
  EXPECT_TRUE(same_bits(count, at::ones({2})));
  EXPECT_TRUE(same_bits(x.grad(), x.detach().cos()));
}

TEST(CheckpointBuffers, WritesToWhatTakesPartInAutogradKeepTheActivations) {
  expect_like_eager(
      [](const Runner& run) {
        const auto x = leaf({4});
        const auto h = x * 2, memory = at::zeros({4});
        const auto y = run(
            [memory](const at::Tensor& h) {
              h.mul_(3);
              memory.add_(h.sin());
              return h.cos();
            },
            h);
        (y + h + memory).sum().backward();
        return grads({x}) + List{y, h, memory};
      },
      0);
}

TEST(CheckpointBuffers, ABlockThatResizesAStorageKeepsItsActivations) {
  expect_like_eager(
      [](const Runner& run) {
        const auto x = leaf({4}), source = at::rand({4}), memory = at::zeros({4});
        resize_storage_(memory, 0);
        const auto y = run(
            [memory, source](const at::Tensor& h) {
              resize_storage_(memory, 16);
              memory.copy_(source);
              const auto y = (h + memory).sin();
              resize_storage_(memory, 0);
              return y;
            },
            x * 2);
        y.sum().backward();
        return grads({x}) + List{y};
      },
      0);
}

// ---- changes ------------------------------------------------------------------------------------

// Calls `change` between the forward and the backward of a block over an argument, a parameter and
// a buffer.
template <class Change>
void backward_after(const Change& change) {
  const auto w = leaf({4});
  const auto buffer = at::rand({4});
  const auto x = leaf({4});
  const auto h = x * 1;
  const auto y = checkpoint([w, buffer](const at::Tensor& x) { return (x + w).sin() * buffer; }, h);
  {
    const at::NoGradGuard no_grad;
    change(h, w, buffer);
  }
  y.sum().backward();
}

TEST(CheckpointChanges, WhatTheBlockReadsMustNotChange) {
  using T = const at::Tensor&;
  EXPECT_NO_THROW(backward_after([](T, T, T) {}));
  EXPECT_THROW(backward_after([](T h, T, T) { h.add_(1); }), BackwardError);
  EXPECT_THROW(backward_after([](T, T w, T) { w.add_(1); }), BackwardError);
  EXPECT_THROW(backward_after([](T, T, T buffer) { buffer.add_(1); }), BackwardError);
  EXPECT_THROW(backward_after([](T, T w, T) { w.set_data(at::ones({4})); }), BackwardError);
}

TEST(CheckpointChanges, AnotherGraphIsAnError) {
  // Each block reads `second`, and does something else when it is recomputed.
  bool second = false;
  const auto w = leaf({4}), v = leaf({4});
  const auto x = leaf({4});
  const auto fails = [&](const std::function<List(const at::Tensor&)>& block) {
    second = false;
    const auto results = checkpoint(block, x);
    second = true;
    EXPECT_THROW(results[0].sum().backward(), BackwardError);
    for (const auto& tensor : {w, v, x}) EXPECT_FALSE(tensor.grad().defined());
  };
  fails([&](const at::Tensor& x) -> List { return {x * (second ? v : w)}; });
  fails([&](const at::Tensor& x) -> List { return {second ? x.sin() : x * w}; });
  fails([&](const at::Tensor& x) -> List { return {second ? x * w : x.sin()}; });
  fails([&](const at::Tensor& x) -> List { return {second ? (x * w).sum() : x * w}; });
  fails([&](const at::Tensor& x) -> List { return {second ? x.detach() : x * w}; });
  fails([&](const at::Tensor& x) { return second ? List{x * w, x} : List{x * w}; });
}

TEST(CheckpointChanges, ASecondBackwardNeedsARetainedGraph) {
  const auto x = leaf({4});
  const auto y = checkpoint([](const at::Tensor& x) { return x.sin(); }, x).sum();
  y.backward();
  EXPECT_THROW(y.backward(), BackwardError);
}

TEST(CheckpointErrors, OfTheForwardPass) {
  const auto x = leaf({4});
  EXPECT_THROW(checkpoint([](const at::Tensor& x) { return x.matmul(at::ones({5})); }, x),
               c10::Error);
  EXPECT_THROW(checkpoint([](const at::Tensor&) -> at::Tensor { throw std::logic_error("no"); }, x),
               std::logic_error);
  // Nothing of the failed ones is left to disturb the next.
  expect_like_eager(
      [](const Runner& run) {
        const auto x = leaf({4});
        run([](const at::Tensor& x) { return at::dropout(x.sin(), 0.5, true); }, x)
            .sum()
            .backward();
        return grads({x});
      },
      1);
}

TEST(CheckpointErrors, OfTheRecomputationLeaveEverythingAsItWas) {
  const auto x = leaf({4});
  const auto buffer = at::zeros({4});
  bool fails = false;
  const auto y = checkpoint(
      [&fails, buffer](const at::Tensor& x) {
        buffer.add_(1);
        const auto y = at::dropout(x * buffer, 0.5, true);
        if (fails) throw std::logic_error("no");
        return y;
      },
      x);
  const auto state = generator_state();
  fails = true;
  const AutocastOn autocast;
  EXPECT_THROW(y.sum().backward({}, /*retain_graph=*/true), std::logic_error);
  EXPECT_TRUE(same_bits(state, generator_state()));
  EXPECT_TRUE(same_bits(buffer, at::ones({4})));
  EXPECT_TRUE(at::autocast::is_autocast_enabled(at::kCPU));
  EXPECT_TRUE(at::GradMode::is_enabled());
  fails = false;
  y.sum().backward();
  EXPECT_TRUE(x.grad().defined());
}

}  // namespace checkpoint_state_test
}  // namespace antegrad::testing
