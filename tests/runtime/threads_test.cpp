// Several threads that call, compile and run backward concurrently, compared with eager on one
// thread.

#include <ATen/ATen.h>
#include <antegrad/inside.h>
#include <c10/core/InferenceMode.h>
#include <common/models.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/utils.h>

#include <atomic>
#include <future>
#include <latch>
#include <optional>

#include "runtime/at_once.h"
#include "support/parity.h"

namespace antegrad::testing {
namespace threads_test {

using List = std::vector<at::Tensor>;

constexpr int kThreads = 4;
constexpr int kCalls = 20;

at::Tensor leaf(at::IntArrayRef sizes) { return at::randn(sizes).set_requires_grad(true); }

// One result and the gradients of an argument and of a weight.
struct Outcome {
  at::Tensor result, of_argument, of_weight;
};

// A small network without random draws, so that each thread has one correct result.
at::Tensor network(const at::Tensor& x, const at::Tensor& w) {
  const auto h = at::layer_norm(x.matmul(w).tanh(), {w.size(1)});
  return (h * h.sigmoid()).sum(1);
}

template <class Fn>
Outcome differentiate(Fn&& fn, const at::Tensor& x, const at::Tensor& w) {
  const auto argument = x.detach().clone().set_requires_grad(true);
  const auto result = fn(argument);
  const auto gradients = torch::autograd::grad({result.sum()}, {argument, w});
  return {result.detach(), gradients[0], gradients[1]};
}

bool same(const Outcome& a, const Outcome& b) {
  return same_bits(List{a.result, a.of_argument, a.of_weight},
                   List{b.result, b.of_argument, b.of_weight});
}

TEST(Threads, CallAndDifferentiateOneProgramAtOnce) {
  const auto w = leaf({6, 5});
  const auto fn = [&](const at::Tensor& x) { return network(x, w); };
  auto step = antegrad::compile(fn);
  List inputs;
  std::vector<Outcome> expected;
  for (int t = 0; t < kThreads; ++t) {
    inputs.push_back(at::randn({4, 6}));
    expected.push_back(differentiate(fn, inputs.back(), w));
  }
  std::atomic<int> wrong = 0;
  at_once(kThreads, [&](int t) {
    const auto i = static_cast<size_t>(t);
    for (int n = 0; n < kCalls; ++n) wrong += !same(differentiate(step, inputs[i], w), expected[i]);
  });
  EXPECT_EQ(wrong, 0);
  const auto report = step.report();
  EXPECT_EQ(report.eager_calls, 0);
  EXPECT_EQ(report.compiled_calls, kThreads * kCalls);
  EXPECT_EQ(report.programs.size(), 1U);
  EXPECT_EQ(capture::live_stand_ins(), 0);
}

TEST(Threads, CompileDifferentShapesAtOnce) {
  const auto w = leaf({6, 5});
  const auto fn = [&](const at::Tensor& x) { return network(x, w); };
  auto step = antegrad::compile(fn);
  std::atomic<int> wrong = 0;
  at_once(kThreads, [&](int t) {
    const auto x = at::ones({t + 1, 6});
    const auto expected = differentiate(fn, x, w);
    for (int n = 0; n < kCalls; ++n) wrong += !same(differentiate(step, x, w), expected);
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(step.report().eager_calls, 0);
  EXPECT_EQ(step.report().programs.size(), static_cast<size_t>(kThreads));
}

TEST(Threads, CompileDifferentCallablesOverOneModelAtOnce) {
  torch::manual_seed(1);
  examples::MlpConfig config;
  config.layers = 2;
  config.width = 8;
  config.dropout = 0;
  examples::Mlp model(config);
  const auto x = at::randn({3, 8});
  std::atomic<int> wrong = 0, eager = 0;
  at_once(kThreads, [&](int t) {
    const auto fn = [&, t](const at::Tensor& in) {
      return model->loss(in, in * static_cast<double>(t));
    };
    const auto w = model->parameters()[0];
    const auto expected = differentiate(fn, x, w);
    for (int n = 0; n < 3; ++n) {
      auto step = antegrad::compile(model, fn);
      for (int call = 0; call < 4; ++call) wrong += !same(differentiate(step, x, w), expected);
      eager += static_cast<int>(step.report().eager_calls);
    }
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(eager, 0);
}

// All threads accumulate gradients into one leaf while captures and audits inspect it.
TEST(Threads, AccumulateIntoOneParameterWhileOthersCapture) {
  const auto w = at::ones({3}).set_requires_grad(true);
#ifdef __SANITIZE_THREAD__
  // `.grad` is protected by the mutex of the leaf's accumulating node. If a graph that ends drops
  // the node and the next graph makes another, the node's reference count orders the two mutexes,
  // in code of libtorch that is not instrumented. With a node that stays there is one mutex.
  const auto accumulator = torch::autograd::impl::grad_accumulator(w);
#endif
  auto step = antegrad::compile([&](const at::Tensor& x) { return (x * w).sum(); },
                                Options().with_audit(Audit::every));
  const auto x = at::ones({3});
  at_once(kThreads, [&](int t) {
    for (int n = 0; n < kCalls; ++n) {
      if (t == 0) step.reset();
      step(x).backward();
    }
  });
  EXPECT_TRUE(same_bits(w.grad(), at::full({3}, float(kThreads * kCalls))));
  EXPECT_EQ(step.report().eager_calls, 0);
}

TEST(Threads, BackwardRunsOnAnotherThread) {
  const auto w = leaf({6, 5});
  const auto fn = [&](const at::Tensor& x) { return network(x, w); };
  auto step = antegrad::compile(fn);
  for (int n = 0; n < 3; ++n) {
    const auto x = leaf({n + 2, 6});
    const auto expected = differentiate(fn, x, w);
    auto result = step(x);
    List gradients;
    std::thread([&, mine = std::move(result)] {
      gradients = torch::autograd::grad({mine.sum()}, {x, w});
    }).join();
    EXPECT_TRUE(same_bits(gradients, List{expected.of_argument, expected.of_weight}));
  }
  EXPECT_EQ(step.report().eager_calls, 0);
}

// The usual backward exists; other forms are captured when they arrive, here on all threads at
// once.
TEST(Threads, UnusualBackwardsAreCapturedAtOnce) {
  const auto w = leaf({6, 5});
  const auto fn = [&](const at::Tensor& x) {
    const auto h = x.matmul(w);
    return std::vector<at::Tensor>{h.sin(), h.cos().t(), h.tanh()};
  };
  auto step = antegrad::compile(fn);
  const auto x = leaf({4, 6});
  const auto gradients = [&](const List& results, int kind) {
    const auto& r = results[kind % 3];
    const auto tangent = kind < 3 ? at::ones_like(r) : at::ones({1, 1}).expand(r.sizes());
    return torch::autograd::grad({r}, {x, w}, {tangent});
  };
  step(x);
  std::atomic<int> wrong = 0;
  at_once(6, [&](int t) {
    const auto expected = gradients(fn(x), t);
    for (int n = 0; n < 5; ++n) wrong += !same_bits(gradients(step(x), t), expected);
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(step.report().eager_calls, 0);
}

TEST(Threads, BackwardsOfOneForwardTakeTurns) {
  const auto w = leaf({6, 5});
  auto step = antegrad::compile([&](const at::Tensor& x) { return network(x, w).sum(); });
  const auto x = leaf({4, 6});
  const auto expected = differentiate([&](const at::Tensor& in) { return network(in, w); }, x, w);
  for (int n = 0; n < kCalls; ++n) {
    const auto loss = step(x);
    std::atomic<int> right = 0, refused = 0;
    at_once(kThreads, [&](int t) {
      try {
        // The first thread frees the saved tensors, whenever its turn is.
        const auto g = torch::autograd::grad({loss}, {x, w}, {}, /*retain_graph=*/t != 0);
        right += static_cast<bool>(same_bits(g, List{expected.of_argument, expected.of_weight}));
      } catch (const BackwardError&) {
        ++refused;
      }
    });
    EXPECT_GE(right, 1);
    EXPECT_EQ(right + refused, kThreads);
    EXPECT_THROW(torch::autograd::grad({loss}, {x}), BackwardError);
  }
}

TEST(Threads, ForwardsOfSeveralProgramsBeforeTheirBackwards) {
  const auto w = leaf({6, 5});
  const auto one = [&](const at::Tensor& x) { return network(x, w); };
  const auto two = [&](const at::Tensor& x) { return network(x.sin(), w).exp(); };
  auto step_one = antegrad::compile(one);
  auto step_two = antegrad::compile(two);
  const auto a = leaf({2, 6}), b = leaf({3, 6});
  const auto order = [&](auto& f, auto& g) {
    const auto first = f(a), second = f(b), third = g(a),
               fourth = g(first.unsqueeze(1).expand({2, 6}));
    List all;
    for (const auto& r : {second, fourth, first, third}) {
      const auto g3 = torch::autograd::grad({r.sum()}, {a, b, w}, {}, true, false, true);
      all.insert(all.end(), g3.begin(), g3.end());
    }
    return all;
  };
  const auto expected = order(one, two);
  EXPECT_TRUE(same_bits(order(step_one, step_two), expected));
  at_once(kThreads, [&](int) { EXPECT_TRUE(same_bits(order(step_one, step_two), expected)); });
  EXPECT_EQ(step_one.report().eager_calls + step_two.report().eager_calls, 0);
}

TEST(Threads, RetainedGraphsGiveTheSameGradientsTwice) {
  const auto w = leaf({6, 5});
  auto step = antegrad::compile([&](const at::Tensor& x) { return network(x, w).sum(); });
  const auto x = leaf({4, 6});
  const auto expected = differentiate([&](const at::Tensor& in) { return network(in, w); }, x, w);
  const auto loss = step(x);
  for (const bool retain : {true, true, false}) {
    EXPECT_TRUE(same_bits(torch::autograd::grad({loss}, {x, w}, {}, retain),
                          List{expected.of_argument, expected.of_weight}));
  }
  EXPECT_THROW(torch::autograd::grad({loss}, {x, w}), BackwardError);
}

TEST(Threads, ResetWarmupAndReportBesideCalls) {
  const auto w = leaf({6, 5});
  const auto fn = [&](const at::Tensor& x) { return network(x, w); };
  auto step = antegrad::compile(fn);
  const auto x = at::randn({4, 6});
  const auto expected = differentiate(fn, x, w);
  std::atomic<int> wrong = 0;
  std::atomic<int64_t> reported = 0;
  at_once(5, [&](int t) {
    for (int n = 0; n < kCalls; ++n) {
      if (t == 0) {
        step.reset();
      } else if (t == 1) {
        step.warmup(at::ones({n % 3 + 1, 6}));
      } else if (t == 2) {
        const auto now = step.report().compiled_calls;
        wrong += now < reported;
        reported = now;
      } else {
        wrong += !same(differentiate(step, x, w), expected);
      }
    }
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(step.report().eager_calls, 0);
  EXPECT_EQ(step.report().compiled_calls, 2 * kCalls);
}

TEST(Threads, GradModesAreEachThreadsOwn) {
  const auto w = leaf({6, 5});
  const auto fn = [&](const at::Tensor& x) { return network(x, w); };
  auto step = antegrad::compile(fn);
  const auto x = at::randn({4, 6});
  const auto expected = differentiate(fn, x, w);
  std::atomic<int> wrong = 0;
  at_once(6, [&](int t) {
    for (int n = 0; n < kCalls; ++n) {
      if (t % 3 == 0) {
        wrong += !same(differentiate(step, x, w), expected);
      } else if (t % 3 == 1) {
        const at::NoGradGuard no_grad;
        const auto result = step(x);
        wrong += result.requires_grad() || !same_bits(result, expected.result);
      } else {
        const c10::InferenceMode inference;
        const auto result = step(x);
        wrong += !result.is_inference() || !same_bits(result, expected.result);
      }
    }
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(step.report().eager_calls, 0);
  EXPECT_EQ(step.report().programs.size(), 3U);
}

TEST(Threads, WrittenArgumentsAreEachThreadsOwn) {
  const auto fn = [](const at::Tensor& x, const at::Tensor& total) {
    total.add_(x.sin());
    return total * x;
  };
  auto step = antegrad::compile(fn);
  std::atomic<int> wrong = 0;
  at_once(kThreads, [&](int t) {
    const auto x = at::full({5}, float(t));
    const auto mine = at::zeros({5}), eager = at::zeros({5});
    for (int n = 0; n < kCalls; ++n) {
      wrong += !same_bits(step(x, mine), fn(x, eager)) || !same_bits(mine, eager) ||
               mine._version() != eager._version();
    }
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(step.report().eager_calls, 0);
}

TEST(Threads, GeneratorsPassedByThreadsOfTheirOwn) {
  std::atomic<int> wrong = 0;
  at_once(kThreads, [&](int t) {
    const auto seeded = [&] {
      auto generator = at::globalContext().defaultGenerator(at::kCPU).clone();
      const std::lock_guard lock(generator.mutex());
      generator.set_current_seed(static_cast<uint64_t>(t));
      return generator;
    };
    const auto eager = seeded(), mine = seeded();
    const auto x = at::ones({4});
    auto step = antegrad::compile(
        [&](const at::Tensor& in) { return in * at::rand({4}, mine, at::TensorOptions()); });
    for (int n = 0; n < kCalls; ++n) {
      wrong += !same_bits(step(x), x * at::rand({4}, eager, at::TensorOptions()));
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST(Threads, DrawsOfTheDefaultGeneratorAreNotRepeated) {
  auto step = antegrad::compile([](const at::Tensor& x) { return at::rand_like(x); });
  const auto x = at::ones({8});
  std::vector<List> drawn(kThreads);
  at_once(kThreads, [&](int t) {
    for (int n = 0; n < kCalls; ++n) drawn[t].push_back(step(x));
  });
  List all;
  for (const auto& list : drawn) all.insert(all.end(), list.begin(), list.end());
  for (size_t i = 0; i < all.size(); ++i) {
    for (size_t j = 0; j < i; ++j) ASSERT_FALSE(at::equal(all[i], all[j])) << i << ' ' << j;
  }
  EXPECT_EQ(step.report().eager_calls, 0);
}

// A step of generator and discriminator: two callables with one model each, and gradients through
// both.
TEST(Threads, TwoCallablesInOneStep) {
  torch::manual_seed(4);
  const auto g = leaf({3, 4}), d = leaf({4, 1});
  const auto make = [&](const at::Tensor& noise) { return noise.matmul(g).tanh(); };
  const auto judge = [&](const at::Tensor& x) { return x.matmul(d).sigmoid().mean(); };
  auto fast_make = antegrad::compile(make);
  auto fast_judge = antegrad::compile(judge);
  const auto train = [&](auto& maker, auto& judger) {
    List gradients;
    for (int n = 1; n <= 3; ++n) {
      const auto noise = at::ones({n, 3}), real = at::ones({n, 4});
      const auto fake = maker(noise);
      const auto loss = judger(real) - judger(fake.detach());
      const auto of_judge = torch::autograd::grad({loss}, {d});
      const auto of_maker = torch::autograd::grad({judger(fake)}, {g, d});
      gradients.insert(gradients.end(), {of_judge[0], of_maker[0], of_maker[1]});
    }
    return gradients;
  };
  const auto expected = train(make, judge);
  EXPECT_TRUE(same_bits(train(fast_make, fast_judge), expected));
  at_once(kThreads, [&](int) { EXPECT_TRUE(same_bits(train(fast_make, fast_judge), expected)); });
  EXPECT_EQ(fast_make.report().eager_calls + fast_judge.report().eager_calls, 0);
}

// The callable never runs on two threads at once, for any reason: captures, audits, other backward
// forms.
TEST(Threads, TheCallableIsCapturedOnOneThreadAtATime) {
  std::atomic<int> inside = 0, most = 0;
  auto step = antegrad::compile(
      [&](const at::Tensor& x) {
        most = std::max(most.load(), ++inside);
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        const auto h = x.sin();
        --inside;
        return std::vector<at::Tensor>{h.cos(), h.tanh()};
      },
      Options().with_audit(Audit::every));
  at_once(kThreads, [&](int t) {
    for (int n = 0; n < 5; ++n) {
      const auto x = leaf({t + 1});
      const auto results = step(x);
      results[n % 2].sum().backward();
    }
  });
  EXPECT_EQ(most, 1);
  EXPECT_EQ(step.report().eager_calls, 0);
}

// The engine's thread of a device runs the backward passes of all threads, captures included. It
// must not wait for a capture that needs that same thread. Here another thread plays its role.
struct Meeting {
  std::atomic<bool> wanted = false, backward_runs = false, callable_runs = false;
  bool wait_for(const std::atomic<bool>& event) const {
    for (int i = 0; i < 5000 && !event; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return event;
  }
};
Meeting& meeting() {
  static Meeting instance;
  return instance;
}
class MeetsInBackward : public torch::autograd::Function<MeetsInBackward> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* /*context*/, const at::Tensor& x) {
    return x * 2;
  }
  static List backward(torch::autograd::AutogradContext* /*context*/, const List& grads) {
    if (meeting().wanted && !meeting().backward_runs.exchange(true)) {
      EXPECT_TRUE(meeting().wait_for(meeting().callable_runs));
    }
    return {grads[0] * 2};
  }
};

TEST(Threads, ACaptureThatRunsItsBackwardLetsOthersCapture) {
  auto step = antegrad::compile(
      [](const at::Tensor& x) {
        if (meeting().backward_runs) meeting().callable_runs = true;
        const auto h = MeetsInBackward::apply(x);
        return std::vector<at::Tensor>{h.cos(), h.tanh()};
      },
      Options().with_audit(Audit::every));
  const auto x = leaf({3});
  const auto results = step(x);
  meeting().wanted = true;
  std::thread audited([&] { step(x); });
  EXPECT_TRUE(meeting().wait_for(meeting().backward_runs));
  results[0].sum().backward();  // from one of two results: captured now
  audited.join();
  EXPECT_TRUE(same_bits(x.grad(), -(x.detach() * 2).sin() * 2));
}

// Checks hold one lock and run backward passes; backward passes capture and hold other locks.
TEST(Threads, ChecksAndUnusualBackwardsDoNotWaitForEachOther) {
  const auto fn = [](const at::Tensor& x) {
    const auto h = x.sin();
    return std::vector<at::Tensor>{h.cos(), h.tanh()};
  };
  auto step = antegrad::compile(fn, Options().with_check_against_eager(40));
  at_once(kThreads, [&](int t) {
    for (int n = 0; n < 10; ++n) {
      // No random draws: checks compare the default generator, which all threads share.
      const auto x = at::ones({t % 2 + 1}).set_requires_grad(true);
      step(x)[n % 2].sum().backward();
    }
  });
  EXPECT_EQ(step.report().checked_calls, 40);
  EXPECT_EQ(step.report().eager_calls, 0);
}

TEST(Threads, AFailingKernelOnOneThreadDoesNotDisturbOthers) {
  auto step = antegrad::compile(
      [](const at::Tensor& x, const at::Tensor& i) { return (x.index_select(0, i) * 2).sin(); });
  const auto x = leaf({4}), good = at::tensor({1, 2}), bad = at::tensor({1, 9});
  const auto expected = (x.index_select(0, good) * 2).sin();
  std::atomic<int> wrong = 0, failed = 0;
  at_once(kThreads, [&](int t) {
    for (int n = 0; n < 5; ++n) {
      if (t == 0) {
        try {
          step(x, bad);
        } catch (const c10::Error&) {
          ++failed;
        }
      } else {
        wrong += !same_bits(step(x, good), expected);
      }
    }
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(failed, 5);
  EXPECT_EQ(step.report().programs.size(), 1U);
}

}  // namespace threads_test
}  // namespace antegrad::testing
