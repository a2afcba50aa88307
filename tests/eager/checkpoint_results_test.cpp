// Arguments and results of checkpointed blocks, and the place of a block in the graph around it.

#include <string>
#include <thread>
#include <tuple>

#include "eager/runner.h"

namespace antegrad::testing {

struct Pair {
  at::Tensor a, b;
  double scale = 1;
};

}  // namespace antegrad::testing

template <>
struct antegrad::tree<antegrad::testing::Pair>
    : antegrad::tree_of_members<&antegrad::testing::Pair::a, &antegrad::testing::Pair::b,
                                &antegrad::testing::Pair::scale> {};

namespace antegrad::testing {
namespace checkpoint_results_test {

// ---- structures ---------------------------------------------------------------------------------

TEST(CheckpointResults, StructuresGoInAndOut) {
  expect_like_eager(
      [](const Runner& run) {
        const Pair pair{leaf({3}), leaf({3}), 2.5};
        const std::vector<at::Tensor> list{leaf({3}), at::Tensor(), leaf({3})};
        const auto [sum, rest, name] = run(
            [](const Pair& p, const List& list, int64_t power, const std::string& name) {
              return std::tuple{
                  Pair{p.a * p.scale, p.b.pow(power), p.scale * 2},
                  std::map<std::string, at::Tensor>{{"x", list[0].sin()}, {"y", list[2] * p.a}},
                  name + "!"};
            },
            pair, list, int64_t{3}, std::string("block"));
        EXPECT_EQ(sum.scale, 5);
        EXPECT_EQ(name, "block!");
        (sum.a + sum.b * rest.at("x") + rest.at("y")).sum().backward();
        return grads({pair.a, pair.b, list[0], list[2]});
      },
      1);
}

TEST(CheckpointResults, OfModules) {
  torch::nn::Sequential model(torch::nn::Linear(4, 8), torch::nn::Tanh(), torch::nn::Linear(8, 4));
  const auto x = leaf({3, 4});
  const auto y = checkpoint(model, x);
  EXPECT_EQ(y.grad_fn()->name(), "AntegradCheckpoint");
  y.sum().backward();
  const auto found = grads(model->parameters()) + grads({x});
  model->zero_grad();
  x.mutable_grad() = at::Tensor();
  model->forward(x).sum().backward();
  EXPECT_TRUE(same_bits(found, grads(model->parameters()) + grads({x})));
}

TEST(CheckpointResults, ACallableThatCannotBeCopied) {
  const auto x = leaf({3});
  auto w = std::make_unique<at::Tensor>(leaf({3}));
  const auto parameter = *w;
  const auto y = checkpoint([w = std::move(w)](const at::Tensor& x) { return (x * *w).sin(); }, x);
  y.sum().backward();
  EXPECT_TRUE(same_bits(parameter.grad(), (x * (x * parameter).cos()).detach()));
}

TEST(CheckpointResults, EachRunBeginsWithTheCallableAsItWasGiven) {
  expect_like_eager(
      [](const Runner&) {
        const auto x = leaf({3});
        int last = 0;
        checkpoint(
            [count = 0, &last](const at::Tensor& x) mutable {
              last = ++count;
              return x.sin() * count;
            },
            x)
            .sum()
            .backward();
        EXPECT_EQ(last, 1);
        EXPECT_TRUE(same_bits(x.grad(), x.detach().cos()));
        return grads({x});
      },
      0);
}

// ---- results ------------------------------------------------------------------------------------

TEST(CheckpointResults, ThatAreArgumentsOrClosureTensorsOrHaveNoHistory) {
  expect_like_eager(
      [](const Runner& run) {
        const auto x = leaf({5});
        const auto w = leaf({5});
        const auto h = x * 2, outer = w.sin();
        const auto results = run(
            [w, outer](const at::Tensor& h) -> List {
              const auto y = h.exp() * outer;
              return {h, y, w, outer, y.argmax(), y.detach(), at::Tensor(), y};
            },
            h);
        EXPECT_TRUE(results[0].is_same(h));
        EXPECT_TRUE(results[2].is_same(w));
        EXPECT_TRUE(results[3].is_same(outer));
        EXPECT_FALSE(results[4].requires_grad());
        EXPECT_TRUE(results[7].is_same(results[1]));
        EXPECT_TRUE(results[5].is_alias_of(results[1]));
        (results[0] * results[1] + results[2] * results[3] * results[5] + results[7])
            .sum()
            .backward();
        return grads({x, w}) + results;
      },
      1);
}

TEST(CheckpointResults, ThatAreNotAllUsed) {
  expect_like_eager(
      [](const Runner& run) {
        const auto x = leaf({5}), w = leaf({5}), v = leaf({5});
        const auto results = run(
            [w, v](const at::Tensor& x) -> List {
              const auto h = x * w;
              return {h.sin(), h * v, h};
            },
            x);
        results[0].sum().backward();
        return grads({x, w, v}) + results;
      },
      1);
}

TEST(CheckpointResults, ThatAreViewsOfTemporaries) {
  expect_like_eager(
      [](const Runner& run) {
        const auto x = leaf({4, 6});
        const auto y =
            run([](const at::Tensor& x) { return (x.sin() * x).t().narrow(0, 1, 3); }, x);
        auto z = y * 1;
        y.mul_(2);
        (y * z).sum().backward();
        return grads({x}) + List{y};
      },
      1);
}

TEST(CheckpointResults, ThatShareMemoryAmongThemselves) {
  expect_like_eager(
      [](const Runner& run) {
        const auto x = leaf({4, 6});
        const auto parts = run([](const at::Tensor& x) { return x.exp().chunk(3, 1); }, x);
        (parts[0] * parts[1]).sum().backward({}, /*retain_graph=*/true);
        parts[2].pow(2).sum().backward();
        return grads({x}) + parts;
      },
      2);
  // One cannot be written without changing what the other was computed from: refused, not wrong.
  const auto x = leaf({4});
  const auto both = checkpoint(
      [](const at::Tensor& x) {
        auto y = x.exp();
        return std::pair{y, y.view({2, 2})};
      },
      x);
  EXPECT_THROW(both.first.mul_(2), c10::Error);
  EXPECT_THROW(both.second.mul_(2), c10::Error);
}

TEST(CheckpointResults, ThatAreViewsFromOutsideKeepTheActivations) {
  expect_like_eager(
      [](const Runner& run) {
        const auto x = leaf({4});
        const auto h = x * 2;
        const auto results = run(
            [](const at::Tensor& h) {
              return List{h.view({2, 2}), h * 3};
            },
            h);
        results[0].mul_(3);
        (results[0].sum() + (results[1] * h).sum()).backward();
        return grads({x}) + List{h};
      },
      0);
}

TEST(CheckpointResults, MayBeWrittenInPlace) {
  expect_like_eager(
      [](const Runner& run) {
        const auto x = leaf({4});
        const auto y = run([](const at::Tensor& x) { return x.sin(); }, x);
        y.mul_(2).add_(x);
        y.sum().backward();
        return grads({x}) + List{y};
      },
      1);
}

TEST(CheckpointResults, ThatAreOneTensorMayBeWrittenInPlaceToo) {
  expect_like_eager(
      [](const Runner& run) {
        const auto x = leaf({4});
        const auto [a, b] = run(
            [](const at::Tensor& x) {
              const auto y = x.sin();
              return std::pair{y, y};
            },
            x);
        a.mul_(2);
        (a * b).sum().backward();
        return grads({x}) + List{a, b};
      },
      1);
}

TEST(CheckpointResults, CountVersionsWithTheirDetachedAliases) {
  for (const bool checkpoints : {false, true}) {
    const Runner run(checkpoints);
    const auto x = leaf({4});
    const auto [y, detached] = run(
        [](const at::Tensor& x) {
          const auto y = x * 2;
          return std::pair{y, y.detach()};
        },
        x);
    const auto z = y.sin();
    detached.add_(1);
    EXPECT_THROW(z.sum().backward(), c10::Error);
  }
}

TEST(CheckpointResults, LeavesThatTheBlockMakesForItself) {
  // Forces of an energy: a derivative inside, by a leaf that nobody else sees.
  expect_like_eager(
      [](const Runner& run) {
        const auto w = leaf({4});
        const auto x = leaf({4});
        const auto block = [w](const at::Tensor& x) {
          const auto position = x.detach().requires_grad_(true);
          const auto energy = ((position * w).sin() * x).sum();
          return torch::autograd::grad({energy}, {position}, {}, true, /*create_graph=*/true)[0];
        };
        (run(block, x) * run(block, x * 2)).sum().backward();
        return grads({w, x});
      },
      2);
}

TEST(CheckpointResults, WithGradModeOffTheBlockJustRuns) {
  expect_like_eager(
      [](const Runner& run) {
        const auto x = leaf({4});
        at::Tensor y;
        {
          const at::NoGradGuard no_grad;
          y = run([](const at::Tensor& x) { return x.sin(); }, x);
        }
        EXPECT_FALSE(y.requires_grad());
        const c10::InferenceMode inference;
        return List{y, run([](const at::Tensor& x) { return x.sin(); }, y)};
      },
      0);
}

TEST(CheckpointResults, NothingRequiresGrad) {
  const auto x = at::randn({4});
  EXPECT_FALSE(checkpoint([](const at::Tensor& x) { return x.sin(); }, x).requires_grad());
}

TEST(CheckpointResults, InferenceTensorsMayBeArguments) {
  at::Tensor index;
  {
    const c10::InferenceMode inference;
    index = at::arange(3);
  }
  const auto x = leaf({4});
  const auto y = checkpoint(
      [](const at::Tensor& x, const at::Tensor& index) {
        return (x * static_cast<double>(index.numel())).sin();
      },
      x, index);
  y.sum().backward();
  EXPECT_TRUE(same_bits(x.grad(), ((x * 3.0).cos() * 3.0).detach()));
}

// ---- hooks --------------------------------------------------------------------------------------

TEST(CheckpointHooks, FireOnceWithEagersGradients) {
  expect_like_eager(
      [](const Runner& run) {
        const auto x = leaf({5}), w = leaf({5});
        const auto h = x * 2;
        List seen;
        const auto note = [&seen](const at::Tensor& g) { seen.push_back(g.clone()); };
        for (const auto& tensor : {x, w, h}) tensor.register_hook(note);
        // Gradients may be changed on their way.
        h.register_hook([](const at::Tensor& g) { return g * 3; });
        const auto y = run([w](const at::Tensor& h) { return h * w + w.sin() * h; }, h);
        y.register_hook(note);
        y.retain_grad();
        h.retain_grad();
        y.pow(2).sum().backward();
        EXPECT_EQ(seen.size(), 4);
        return seen + grads({x, w, h, y});
      },
      1);
}

TEST(CheckpointHooks, OnResultsThatOthersWereComputedFromAreRefused) {
  // The cell of an LSTM: h was computed from c inside.
  const auto block = [](const at::Tensor& x) {
    const auto c = x.sin();
    return std::pair{c, c.tanh()};
  };
  const auto x = leaf({4});
  {
    const auto [c, h] = checkpoint(block, x);
    EXPECT_THROW(torch::autograd::grad({h.sum() + c.sum()}, {c}), BackwardError);
  }
  {
    const auto [c, h] = checkpoint(block, x);
    c.register_hook([](const at::Tensor& g) { return g * 2; });
    EXPECT_THROW((h.sum() + c.sum()).backward(), BackwardError);
  }
  EXPECT_FALSE(x.grad().defined());
  expect_like_eager(
      [&](const Runner& run) {
        const auto x = leaf({4});
        const auto [c, h] = run(block, x);
        h.register_hook([](const at::Tensor& g) { return g * 2; });
        (h * c).sum().backward();
        return grads({x});
      },
      1);
}

TEST(CheckpointHooks, InsideTheBlockSeeTheRecomputation) {
  expect_like_eager(
      [](const Runner& run) {
        const auto x = leaf({5});
        auto seen = std::make_shared<List>();
        const auto y = run(
            [seen](const at::Tensor& x) {
              const auto h = x.sin();
              h.register_hook([seen](const at::Tensor& g) {
                seen->push_back(g.clone());
                return g * 2;
              });
              auto y = h * h;
              y.register_hook([seen](const at::Tensor& g) { seen->push_back(g.clone()); });
              y.retain_grad();
              return y;
            },
            x);
        y.sum().backward();
        EXPECT_EQ(seen->size(), 2);
        return *seen + grads({x, y});
      },
      1);
}

TEST(CheckpointHooks, WhatNobodyAsksForIsNotComputed) {
  expect_like_eager(
      [](const Runner& run) {
        const auto x = leaf({5}), w = leaf({5});
        int computed = 0;
        const auto y = run(
            [w, &computed](const at::Tensor& x) {
              const auto v = w.exp();
              v.register_hook([&computed](const at::Tensor&) { ++computed; });
              return x.sin() * v;
            },
            x);
        const auto g = torch::autograd::grad({y.sum()}, {x});
        EXPECT_EQ(computed, 0);
        return g;
      },
      1);
}

TEST(CheckpointHooks, TensorsThatLeaveTheBlockOtherwiseKeepTheirHistory) {
  expect_like_eager(
      [](const Runner& run) {
        const auto x = leaf({5});
        at::Tensor aside;
        const auto y = run(
            [&aside](const at::Tensor& x) {
              const auto h = x.exp();
              if (!aside.defined()) aside = x.cos();
              return h.sin();
            },
            x);
        (y.sum() + aside.sum()).backward();
        return grads({x});
      },
      1);
}

TEST(CheckpointResults, TheNodesOfAnotherThreadAreOutside) {
  // Numbers of nodes are counted by thread: the input's may be higher than all of the block's.
  const auto x = leaf({5}), w = leaf({5});
  at::Tensor h, closure;
  std::thread([&] {
    for (int i = 0; i < 1000; ++i) h = x * 2;
    closure = w.exp();
  }).join();
  int hooks = 0;
  h.register_hook([&](const at::Tensor&) { ++hooks; });
  closure.register_hook([&](const at::Tensor&) { ++hooks; });
  at::Tensor y;
  std::thread([&] {
    y = checkpoint([closure](const at::Tensor& h) { return h.sin() * closure; }, h);
  }).join();
  y.sum().backward();
  EXPECT_EQ(hooks, 2);
  EXPECT_TRUE(same_bits(x.grad(), (h.cos() * closure * 2).detach()));
  EXPECT_TRUE(same_bits(w.grad(), (h.sin() * closure).detach()));
}

}  // namespace checkpoint_results_test
}  // namespace antegrad::testing
