// Hooks of each kind, once and in the engine's order.

#include <antegrad/antegrad.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/optim/sgd.h>

#include "scenario.h"

namespace antegrad::testing {
namespace hooks_test {

struct PreHook : torch::autograd::FunctionPreHook {
  explicit PreHook(std::function<List(const List&)> body) : body(std::move(body)) {}
  List operator()(const List& gradients) override { return body(gradients); }
  std::function<List(const List&)> body;
};

struct AfterAccumulation : torch::autograd::PostAccumulateGradHook {
  explicit AfterAccumulation(std::function<void(const at::Tensor&)> body) : body(std::move(body)) {}
  void operator()(const at::Tensor& leaf) override { body(leaf); }
  std::function<void(const at::Tensor&)> body;
};

void after_accumulation(const at::Tensor& leaf, std::function<void(const at::Tensor&)> body) {
  torch::autograd::impl::set_post_acc_grad_hooks(
      leaf, std::make_unique<AfterAccumulation>(std::move(body)));
}

TEST(CompiledBackwardHooks, OfAllKindsRunOnceAndInOrder) {
  const auto report = expect_as_libtorch([](Notes& notes) {
    const auto a = leaf({6}), b = leaf({6});
    const auto note = [&](const char* what) {
      return [&notes, what](const at::Tensor& gradient) { notes.add(what, gradient); };
    };
    a.register_hook([&](const at::Tensor& g) {
      notes.add("leaf a", g);
      return g * 3;
    });
    b.register_hook(note("leaf b"));
    after_accumulation(a, [&](const at::Tensor& leaf) { notes.add("accumulated a", leaf.grad()); });
    const auto x = a * b;
    x.register_hook([&](const at::Tensor& g) {
      notes.add("x", g);
      return g + 1;
    });
    x.register_hook(note("x again"));
    x.retain_grad();
    const auto y = x.sin();
    y.grad_fn()->add_pre_hook(std::make_unique<PreHook>([&](const List& gradients) {
      notes.add("before sin", gradients[0]);
      return List{gradients[0] * 2};
    }));
    y.grad_fn()->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
        [&](const List& outputs, const List& inputs) {
          notes.add("after sin, out", outputs[0]);
          notes.add("after sin, in", inputs[0]);
          return List{outputs[0] * 0.5};
        }));
    (y.exp() * x).sum().backward();
    notes.add("kept", x.grad());
    notes.add_gradients({a, b});
  });
  EXPECT_GT(report.nodes_compiled, 0);
}

// What is asked for has passed the hooks on the tensor only if its node does not run.
TEST(CompiledBackwardHooks, AroundGradientsThatAreAskedFor) {
  expect_as_libtorch([](Notes& notes) {
    const auto a = leaf({6});
    const auto x = a.exp();
    x.register_hook([](const at::Tensor& g) { return g * 3; });
    x.grad_fn()->add_pre_hook(std::make_unique<PreHook>([&](const List& gradients) {
      notes.add("before exp", gradients[0]);
      return List{gradients[0] * 2};
    }));
    const auto loss = (x * x).sum();
    for (const auto& gradient : torch::autograd::grad({loss}, {x}, {}, true))
      notes.add("x", gradient);
    for (const auto& gradient : torch::autograd::grad({loss}, {a, x}, {}, true)) {
      notes.add("a, x", gradient);
    }
  });
}

TEST(CompiledBackwardHooks, MayBeAddedByHooks) {
  expect_as_libtorch([](Notes& notes) {
    const auto a = leaf({6});
    const auto x = a.exp();
    const auto y = x.sin();
    y.register_hook([&, x](const at::Tensor& g) {
      notes.add("y", g);
      x.register_hook([&](const at::Tensor& inner) {
        notes.add("x", inner);
        return inner * 2;
      });
    });
    y.square().sum().backward();
    notes.add_gradients({a});
  });
}

TEST(CompiledBackwardHooks, NewOnesEachStepNeedNoNewProgram) {
  CompiledBackward scope(exact_backward());
  const auto a = leaf({8});
  for (int step = 0; step < 100; ++step) {
    const auto x = a.sin();
    int ran = 0;
    const auto factor = step + 1;
    x.register_hook([&, factor](const at::Tensor& g) {
      ++ran;
      return g * factor;
    });
    x.exp().sum().backward();
    EXPECT_EQ(ran, 1);
    const auto sine = a.detach().sin();
    EXPECT_TRUE(same_bits(a.grad(), sine.exp() * factor * a.detach().cos())) << step;
    a.mutable_grad() = at::Tensor();
  }
  EXPECT_EQ(scope.report().graphs, 1);
  EXPECT_EQ(scope.report().captures, 2);
}

// New hooks, another scale and other packed data in each step.
TEST(CompiledBackwardHooks, HundredStepsInWhichAllChangesAreTheProgramsOfTheFirstTwo) {
  const auto run = [](Notes& notes, const std::function<void(int)>& behind) {
    at::manual_seed(0);
    const List p{leaf({8, 8}), leaf({8})};
    for (int step = 0; step < 100; ++step) {
      at::Tensor h;
      {
        const double factor = 1 + step % 7;  // packed data are others, and what they unpack to
        SavedTensorHooks hooks([factor](const at::Tensor& saved) { return List{saved / factor}; },
                               [factor](const List& packed) { return packed[0] * factor; });
        h = p[0].sin() * p[1];
      }
      h.register_hook([step](const at::Tensor& g) { return g * (step + 2); });
      auto loss = (h.tanh() * p[0]).sum() * (0.5 + step / 3.0);
      loss.register_hook([&notes](const at::Tensor& g) { notes.add("hook", g); });
      loss.backward();
      notes.add_gradients(p);
      behind(step);
    }
  };
  Notes expected, found;
  run(expected, [](int) {});
  CompiledBackward scope(exact_backward());
  int64_t captures_of_two = 0;
  run(found, [&](int step) {
    if (step == 1) captures_of_two = scope.report().captures;
  });
  expect_same_notes(found, expected);
  const auto report = scope.report();
  EXPECT_EQ(report.captures, captures_of_two) << report;
  EXPECT_LE(report.graphs, 2) << report;
  EXPECT_TRUE(report.eager_reasons.empty()) << report;
}

TEST(CompiledBackwardHooks, AnOptimizerMayStepInside) {
  expect_as_libtorch([](Notes& notes) {
    const List leaves{leaf({8, 8}), leaf({8, 8})};
    for (const auto& leaf : leaves) {
      after_accumulation(leaf, [](const at::Tensor& parameter) {
        const at::NoGradGuard no_grad;
        parameter.sub_(parameter.grad(), 0.1);
        parameter.mutable_grad() = at::Tensor();
      });
    }
    for (int step = 0; step < 3; ++step) {
      at::ones({4, 8}).mm(leaves[0]).tanh().mm(leaves[1]).square().sum().backward();
    }
    for (const auto& leaf : leaves) notes.add("parameter", leaf);
  });
}

TEST(CompiledBackwardHooks, MayRunPassesThemselves) {
  expect_as_libtorch([](Notes& notes) {
    const auto a = leaf({6});
    const auto x = a.exp();
    x.register_hook([&](const at::Tensor& g) {
      const at::AutoGradMode with_grad(true);
      const auto inner = g.detach().requires_grad_();
      (inner.sin() * inner).sum().backward();
      notes.add("inner", inner.grad());
      return g + inner.grad();
    });
    (x * x).sum().backward();
    notes.add_gradients({a});
  });
}

TEST(CompiledBackwardHooks, CallbacksRunAtTheEnd) {
  expect_as_libtorch([](Notes& notes) {
    const auto a = leaf({6});
    const auto x = a.exp();
    x.register_hook([&](const at::Tensor& g) {
      torch::autograd::Engine::get_default_engine().queue_callback(
          [&] { notes.add("at the end", a.grad()); });
      notes.add("hook", g);
    });
    (x * x).sum().backward();
    notes.add_gradients({a});
  });
}

TEST(CompiledBackwardHooks, OfSavedTensorsUnpackWhenTheNodeRuns) {
  expect_as_libtorch([](Notes& notes) {
    SavedTensorHooks hooks([&](const at::Tensor& tensor) { return List{tensor.clone()}; },
                           [&](const List& packed) {
                             notes.add("unpack", packed[0]);
                             return packed[0];
                           });
    const auto a = leaf({6});
    const auto x = a.exp();
    x.register_hook([&](const at::Tensor& g) { notes.add("hook", g); });
    (x * x).sin().sum().backward();
    notes.add_gradients({a});
  });
}

// A pass that throws leaves the graph as the engine's would.
TEST(CompiledBackwardHooks, AThrowLeavesAUsableGraph) {
  for (const bool retain : {true, false}) {
    for (int at = 0; at < 4; ++at) {
      SCOPED_TRACE(c10::str(retain, " ", at));
      expect_as_libtorch([&](Notes& notes) {
        const auto a = leaf({6}), b = leaf({6});
        int left = at;
        const auto may_throw = [&](const at::Tensor& g) {
          notes.add("hook", g);
          if (left-- == 0) throw std::runtime_error("thrown by a hook");
        };
        const auto x = a * b;
        x.register_hook(may_throw);
        const auto y = x.sin();
        y.register_hook(may_throw);
        const auto loss = (y * y).sum() + x.exp().sum();
        a.register_hook(may_throw);
        for (int i = 0; i < 3; ++i) {
          try {
            loss.backward({}, retain);
          } catch (const c10::Error& error) {
            notes.add(error.what_without_backtrace());
          } catch (const std::exception& error) {
            notes.add(error.what());
          }
          notes.add_gradients({a, b});
        }
      });
    }
  }
}

TEST(CompiledBackwardHooks, WritesToSavedTensorsInsideAreEagersError) {
  expect_as_libtorch([](Notes& notes) {
    const auto a = leaf({6}), b = leaf({6});
    const auto x = a * b;  // saves both
    const auto y = x.sin();
    y.register_hook([&](const at::Tensor& g) {
      notes.add("hook", g);
      const at::NoGradGuard no_grad;
      b.add_(1);
    });
    try {
      y.square().sum().backward();
    } catch (const c10::Error& error) {
      notes.add(error.what_without_backtrace());
    }
    notes.add_gradients({a, b});
  });
}

TEST(CompiledBackwardHooks, ChangedSavedTensorsAreEagersError) {
  expect_as_libtorch([](Notes& notes) {
    const auto a = leaf({6});
    const auto x = a.exp();
    const auto loss = x.square().sum();
    x.detach().add_(1);
    try {
      loss.backward();
    } catch (const c10::Error& error) {
      notes.add(error.what_without_backtrace());
    }
    notes.add_gradients({a});
  });
}

}  // namespace hooks_test
}  // namespace antegrad::testing
