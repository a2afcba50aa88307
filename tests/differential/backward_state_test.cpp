// BackwardState: hooks that are part of a program, with code that each call brings along.

#include <ATen/ATen.h>
#include <antegrad/antegrad.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/bits.h"
#include "support/options.h"

namespace antegrad::testing {
namespace backward_state_test {

using List = std::vector<at::Tensor>;

// What the hooks of one step noted, and the gradients.
struct Noted {
  std::vector<std::string> order;
  List seen;
  List gradients;
};

void expect_same(const Noted& found, const Noted& expected) {
  EXPECT_EQ(found.order, expected.order);
  EXPECT_TRUE(same_bits(found.seen, expected.seen));
  EXPECT_TRUE(same_bits(found.gradients, expected.gradients));
}

// Two layers with hooks on what is between them.
struct Layers {
  at::Tensor w = at::randn({8, 8}), v = at::randn({8, 8});

  Layers() {
    w.requires_grad_();
    v.requires_grad_();
  }
  at::Tensor loss(const BackwardState& state, const at::Tensor& x) const {
    const auto h = at::mm(x, w).tanh();
    state.register_hook(h, "first");
    const auto y = at::mm(h, v);
    state.register_hook(y, "second");
    return (y.sigmoid() * h).sum();
  }
  List take_gradients() const {
    List taken;
    for (const auto& leaf : {w, v}) {
      taken.push_back(leaf.grad());
      leaf.mutable_grad() = at::Tensor();
    }
    return taken;
  }
};

auto compiled(const Layers& layers, const Options& options = tested_options()) {
  return antegrad::compile(
      [&layers](const BackwardState& state, const at::Tensor& x) { return layers.loss(state, x); },
      Options(options).with_verify_graphs(true));
}

// Step `i`: its hooks know its number, and one scales what it gets.
template <class Step>
Noted run(const Layers& layers, Step&& step, const at::Tensor& x, int i, int passes = 1) {
  Noted noted;
  const BackwardState state;
  const auto loss = step(state, x);
  state.set("first", [&noted, i](const at::Tensor& g) {
    noted.order.push_back("first " + std::to_string(i));
    noted.seen.push_back(g);
    return g * (i + 1);
  });
  state.set("second", [&noted, i](const at::Tensor& g) {
    noted.order.push_back("second " + std::to_string(i));
    noted.seen.push_back(g);
    return at::Tensor();
  });
  for (int pass = passes; pass > 0; --pass) loss.backward({}, /*retain_graph=*/pass > 1);
  noted.gradients = layers.take_gradients();
  return noted;
}

TEST(BackwardState, HooksRunInEachPassWithTheStateOfItsCall) {
  const Layers layers;
  const auto eager = [&](const BackwardState& state, const at::Tensor& x) {
    return layers.loss(state, x);
  };
  auto step = compiled(layers);
  for (int i = 0; i < 6; ++i) {
    const auto x = at::randn({4, 8});
    const int passes = 1 + i % 2;
    const auto expected = run(layers, eager, x, i, passes);
    expect_same(run(layers, step, x, i, passes), expected);
    EXPECT_EQ(expected.order.size(), 2 * passes);
  }
  const auto report = step.report();
  EXPECT_EQ(report.eager_calls, 0);
  EXPECT_EQ(report.programs.size(), 1) << report;
}

TEST(BackwardState, CallsUnderWayHaveTheirOwn) {
  const Layers layers;
  auto step = compiled(layers);
  std::vector<int> order;
  List losses;
  for (int i = 0; i < 3; ++i) {
    const BackwardState state;  // the graph keeps it
    losses.push_back(step(state, at::randn({4, 8})));
    for (const char* name : {"first", "second"}) {
      state.set(name, [&order, i](const at::Tensor&) {
        order.push_back(i);
        return at::Tensor();
      });
    }
  }
  for (const int i : {2, 0, 1}) losses[i].backward();
  EXPECT_EQ(order, (std::vector{2, 2, 0, 0, 1, 1}));
  EXPECT_EQ(step.report().eager_calls, 0);
}

TEST(BackwardState, IsFreedWithItsGraph) {
  const Layers layers;
  auto step = compiled(layers);
  const auto held = std::make_shared<int>(0);
  auto loss = [&] {
    const BackwardState state;
    state.set("first", [held](const at::Tensor&) { return at::Tensor(); });
    state.set("second", [held](const at::Tensor&) { return at::Tensor(); });
    return step(state, at::randn({4, 8}));
  }();
  EXPECT_EQ(held.use_count(), 3);
  loss.backward();
  loss.reset();
  EXPECT_EQ(held.use_count(), 1);
}

TEST(BackwardState, IsFoundByNameWhereNothingWasSet) {
  const Layers layers;
  auto step = compiled(layers);
  std::vector<std::string> asked;
  const BackwardState state([&](const std::string& name) -> BackwardState::Hook {
    asked.push_back(name);
    if (name == "first") return nullptr;
    return [](const at::Tensor& g) { return g * 2; };
  });
  const auto loss = step(state, at::randn({4, 8}));
  state.set("first", [](const at::Tensor& g) { return g + 1; });
  loss.backward();
  EXPECT_EQ(asked, std::vector<std::string>{"second"});
  layers.take_gradients();
}

// One gradient that arrives is expanded, the other one transposed.
TEST(BackwardState, GradientsHaveTheStridesThatTheyHaveInEagerMode) {
  const auto w = at::randn({3, 5}).requires_grad_();
  for (const bool expanded : {true, false}) {
    const auto loss = [&](const BackwardState& state, const at::Tensor& x) {
      const auto y = x * w, z = y.t().exp();
      state.register_hook(expanded ? z : y, "it");
      return z.sum() + y.sum();
    };
    std::vector<std::vector<int64_t>> strides;
    const auto gradient = [&](auto& step) {
      const BackwardState state;
      state.set("it", [&](const at::Tensor& g) {
        strides.push_back(g.strides().vec());
        return at::Tensor();
      });
      step(state, at::ones({3, 5})).backward();
      return std::exchange(w.mutable_grad(), at::Tensor());
    };
    const auto expected = gradient(loss);
    auto step = antegrad::compile(loss, tested_options());
    EXPECT_TRUE(same_bits(gradient(step), expected));
    ASSERT_EQ(strides.size(), 2);
    EXPECT_EQ(strides[0], strides[1]);
  }
}

TEST(BackwardState, MayStopThePass) {
  const Layers layers;
  auto step = compiled(layers);
  const BackwardState state;
  state.set("first", [](const at::Tensor&) { return at::Tensor(); });
  state.set("second", [](const at::Tensor&) -> at::Tensor { throw std::domain_error("enough"); });
  const auto loss = step(state, at::randn({4, 8}));
  EXPECT_THROW(loss.backward({}, /*retain_graph=*/true), std::domain_error);
  state.set("second", nullptr);
  EXPECT_THROW(loss.backward({}, /*retain_graph=*/true), BackwardError);
  state.set("second", [](const at::Tensor& g) { return g.to(at::kDouble); });
  EXPECT_THROW(loss.backward({}, /*retain_graph=*/true), BackwardError);
  for (const auto& gradient : layers.take_gradients()) EXPECT_FALSE(gradient.defined());
  state.set("second", [](const at::Tensor& g) { return g; });
  loss.backward();
  for (const auto& gradient : layers.take_gradients()) EXPECT_TRUE(gradient.defined());
}

TEST(BackwardState, IsMadeAndFilledOutside) {
  const auto x = at::randn({3}).requires_grad_();
  const BackwardState held;
  const auto refused = [&](const auto& body) {
    auto step = antegrad::compile(
        [&](const BackwardState& state, const at::Tensor& x) {
          const auto y = x.exp();
          body(state, y);
          return y.sum();
        },
        tested_options());
    EXPECT_THROW(step(BackwardState(), x), CaptureError);
  };
  refused([](const BackwardState&, const at::Tensor& y) { BackwardState().register_hook(y, "a"); });
  refused([&](const BackwardState&, const at::Tensor& y) { held.register_hook(y, "a"); });
  refused([](const BackwardState& state, const at::Tensor&) {
    state.set("a", [](const at::Tensor& g) { return g; });
  });
}

TEST(BackwardState, HooksMayUseAutogradAndKeepTheirGradients) {
  const Layers layers;
  auto step = compiled(layers);
  List kept, copies;
  for (int i = 0; i < 4; ++i) {
    const BackwardState state([&](const std::string&) {
      return [&](const at::Tensor& g) {
        EXPECT_FALSE(at::GradMode::is_enabled());
        kept.push_back(g);
        copies.push_back(g.clone());
        const at::AutoGradMode with_grad(true);
        const auto leaf = g.detach().requires_grad_();
        (leaf * leaf).sum().backward();
        return leaf.grad() / 2;
      };
    });
    step(state, at::randn({4, 8})).backward();
  }
  EXPECT_TRUE(same_bits(kept, copies));
  layers.take_gradients();
}

TEST(BackwardState, EachThreadHasItsOwn) {
  auto step = antegrad::compile(
      [](const BackwardState& state, const at::Tensor& x) {
        const auto y = x.sin();
        state.register_hook(y, "y");
        return (y * y).sum();
      },
      tested_options());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        const auto x = at::full({16}, t + 1.0).requires_grad_();
        const BackwardState state;
        int calls = 0;
        const auto loss = step(state, x);
        state.set("y", [&](const at::Tensor& g) {
          ++calls;
          return g * t;
        });
        loss.backward();
        EXPECT_EQ(calls, 1);
        const auto plain = x.detach();
        EXPECT_TRUE(at::allclose(x.grad(), t * 2 * plain.sin() * plain.cos()));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(step.report().eager_calls, 0);
}

// A region with a state becomes part of the program of a pass, and keeps its hooks.
TEST(BackwardState, WithinCompiledBackward) {
  const Layers layers;
  auto step = compiled(layers, Options());
  const auto around = [&](auto& region) {
    return [&](const BackwardState& state, const at::Tensor& x) {
      return region(state, x.exp()).log1p() * 2;
    };
  };
  const auto eager = [&](const BackwardState& state, const at::Tensor& x) {
    return layers.loss(state, x);
  };
  std::vector<Noted> expected;
  List inputs;
  for (int i = 0; i < 4; ++i) {
    inputs.push_back(at::randn({4, 8}).abs());
    expected.push_back(run(layers, around(eager), inputs.back(), i));
  }
  const CompiledBackward scope(Options().with_lowering(Lowering::exact).with_verify_graphs(true));
  for (int i = 0; i < 4; ++i) {
    expect_same(run(layers, around(step), inputs[i], i), expected[i]);
    expect_same(run(layers, around(eager), inputs[i], i), expected[i]);
  }
  const auto report = scope.report();
  EXPECT_TRUE(report.eager_reasons.empty()) << report;
  EXPECT_FALSE(report.regions.empty()) << report;
}

}  // namespace backward_state_test
}  // namespace antegrad::testing
