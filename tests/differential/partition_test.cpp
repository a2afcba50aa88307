// The minimum-cut partition of captured graphs: gradients equal bit for bit, whatever is
// recomputed.

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <antegrad/antegrad.h>
#include <antegrad/memory.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn.h>
#include <torch/utils.h>

#include <atomic>
#include <functional>
#include <map>
#include <thread>

#include "memory/byte_rules.h"
#include "support/autocast.h"
#include "support/bits.h"
#include "support/options.h"

namespace antegrad::testing {
namespace partition_test {

using List = std::vector<at::Tensor>;

int64_t total(const std::map<std::string, int64_t>& counts) {
  int64_t sum = 0;
  for (const auto& [name, count] : counts) sum += count;
  return sum;
}

// --- what is saved -------------------------------------------------------------------------------

at::Tensor silu_chain(const at::Tensor& x, const at::Tensor& w) {
  return (at::silu(at::mm(x, w) * 0.5) + 1).tanh().sum();
}

TEST(Partition, MinCutSavesLessAndGivesTheSameGradients) {
  at::manual_seed(1);
  const auto x = at::randn({64, 32}).requires_grad_(), w = at::randn({32, 48}).requires_grad_();
  auto written = compile(silu_chain, Options().with_verify_graphs(true));
  auto cut = compile(silu_chain, Options().with_verify_graphs(true).with_min_cut());
  const auto eager = torch::autograd::grad({silu_chain(x, w)}, {x, w});
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(same_bits(eager, torch::autograd::grad({written(x, w)}, {x, w})));
    EXPECT_TRUE(same_bits(eager, torch::autograd::grad({cut(x, w)}, {x, w})));
  }
  const auto before = written.report().programs.at(0), after = cut.report().programs.at(0);
  EXPECT_EQ(total(before.recomputed), before.recomputed.count("aten::t.default"));
  EXPECT_GE(total(after.recomputed), 2);
  EXPECT_LT(after.saved_bytes, before.saved_bytes);
  EXPECT_EQ(cut.report().eager_calls, 0);
}

TEST(Partition, MatrixProductsRunAgainWhereTheirBanIsOff) {
  const auto x = at::randn({64, 32}).requires_grad_(), w = at::randn({32, 48}).requires_grad_();
  auto step = compile(silu_chain, Options().with_verify_graphs(true).with_min_cut(without_bans()));
  const auto eager = torch::autograd::grad({silu_chain(x, w)}, {x, w});
  EXPECT_TRUE(same_bits(eager, torch::autograd::grad({step(x, w)}, {x, w})));
  const auto program = step.report().programs.at(0);
  EXPECT_EQ(program.recomputed.at("aten::mm.default"), 1);
  EXPECT_EQ(program.saved_bytes, 0);
}

TEST(Partition, AnArgumentThatIsReadAgainMustNotHaveChanged) {
  const auto x = at::randn({64, 32}), w = at::randn({32, 48}).requires_grad_();
  auto step =
      compile([](const at::Tensor& a, const at::Tensor& b) { return (a.exp() * b.sum()).sum(); },
              Options().with_min_cut(without_bans()));
  const auto loss = step(x, w);
  x.zero_();
  EXPECT_THROW(loss.backward(), c10::Error);
}

// A low-precision copy of a weight is recomputed from the weight, which is in memory anyway. Eager
// saves no less.
TEST(Partition, LowPrecisionCopiesOfWeightsAreNotSaved) {
  at::manual_seed(2);
  torch::nn::Sequential model(torch::nn::Linear(64, 64), torch::nn::GELU(),
                              torch::nn::Linear(64, 64), torch::nn::GELU(),
                              torch::nn::Linear(64, 64));
  const auto x = at::randn({256, 64});
  const auto body = [&](const at::Tensor& in) {
    const AutocastOn autocast(at::kCPU);
    return model->forward(in).to(at::kFloat).sin().sum();
  };
  auto written = compile(model, body, Options().with_verify_graphs(true));
  auto cut = compile(model, body, Options().with_verify_graphs(true).with_min_cut());
  const auto parameters = model->parameters();
  const auto eager = torch::autograd::grad({body(x)}, parameters);
  EXPECT_TRUE(same_bits(eager, torch::autograd::grad({written(x)}, parameters)));
  EXPECT_TRUE(same_bits(eager, torch::autograd::grad({cut(x)}, parameters)));
  // Gradients go back through the weights of two layers.
  const int64_t copies = 2 * 64 * 64 * 2;
  EXPECT_LE(cut.report().programs.at(0).saved_bytes,
            written.report().programs.at(0).saved_bytes - copies);
}

// An argument that the call overwrites is saved as a copy; its views are recomputed by offsets in
// the storage.
TEST(Partition, ACopyOfAnArgumentThatStartsLateInItsStorageHasItsViewsThere) {
  const auto body = [](at::Tensor a, const at::Tensor& c) { a.mul_(c); };
  for (const auto& options : {Options(), Options().with_min_cut()}) {
    for (const bool gaps : {false, true}) {
      auto step = compile(body, options);
      const auto c = at::randn({}).requires_grad_();
      const auto memory = at::arange(400.0);
      auto a = at::empty({0}).set_(memory.storage(), 7, {4, 3}, {gaps ? 5 : 3, 1});
      const auto before = a.clone();
      step(a, c);
      const auto gradient = torch::autograd::grad({a.sum()}, {c})[0];
      EXPECT_TRUE(same_bits(a.detach(), before * c.detach()));
      EXPECT_TRUE(same_bits(gradient, before.sum())) << gradient << before;
    }
  }
}

// --- random draws --------------------------------------------------------------------------------

struct RandomCase {
  std::string name;
  std::string op;  // that runs again
  std::function<at::Tensor(const at::Tensor& x)> fn;
};

std::ostream& operator<<(std::ostream& out, const RandomCase& c) { return out << c.name; }

at::Tensor above_zero(const at::Tensor& x) { return x.detach().abs() + 0.1; }

at::Generator own_generator(c10::Device device) {
  static std::map<c10::DeviceType, at::Generator> all;
  auto& generator = all[device.type()];
  if (!generator.defined()) generator = at::globalContext().defaultGenerator(device).clone();
  return generator;
}

// Each multiplies by what it draws, so that the derivative reads the draw.
std::vector<RandomCase> random_cases() {
  return {
      {"dropout", "antegrad::draw_bools.default",
       [](const auto& x) { return at::dropout(x, 0.3, true); }},
      {"two_dropouts", "antegrad::draw_bools.default",
       [](const auto& x) { return at::dropout(at::dropout(x, 0.3, true).sin(), 0.2, true); }},
      {"feature_dropout", "",
       [](const auto& x) { return at::feature_dropout(x, 0.3, true).sin(); }},
      {"native_dropout", "aten::native_dropout.default",
       [](const auto& x) { return std::get<0>(at::native_dropout(x, 0.4, true)); }},
      {"rand", "aten::rand.default",
       [](const auto& x) {
         return x * at::rand({96, 96}, x.options());
       }},
      {"randn", "aten::randn.default",
       [](const auto& x) {
         return x * at::randn({96, 96}, x.options());
       }},
      {"rand_like", "aten::rand_like.default", [](const auto& x) { return x * at::rand_like(x); }},
      {"randn_like", "aten::randn_like.default",
       [](const auto& x) { return x * at::randn_like(x); }},
      {"randint", "aten::randint.default",
       [](const auto& x) {
         return x * at::randint(9, {96, 96}, x.options());
       }},
      {"randint_low", "aten::randint.low",
       [](const auto& x) {
         return x * at::randint(2, 9, {96, 96}, x.options());
       }},
      {"randint_like", "aten::randint_like.low_dtype",
       [](const auto& x) { return x * at::randint_like(x.detach(), 1, 5); }},
      {"bernoulli", "aten::bernoulli.default",
       [](const auto& x) { return x * at::bernoulli(above_zero(x).sigmoid()); }},
      {"bernoulli_p", "aten::bernoulli.p",
       [](const auto& x) { return x * at::bernoulli(x.detach(), 0.4); }},
      {"multinomial", "aten::multinomial.default",
       [](const auto& x) { return x * at::multinomial(above_zero(x), 96, true); }},
      {"multinomial_without_replacement", "",
       [](const auto& x) { return x * at::multinomial(above_zero(x), 96, false); }},
      {"normal", "aten::normal.Tensor_Tensor",
       [](const auto& x) { return x * at::normal(x.detach(), above_zero(x)); }},
      {"normal_", "", [](const auto& x) { return x * at::empty_like(x).normal_(1, 2); }},
      {"uniform_", "", [](const auto& x) { return x * at::empty_like(x).uniform_(-1, 2); }},
      {"exponential_", "", [](const auto& x) { return x * at::empty_like(x).exponential_(); }},
      {"poisson", "aten::poisson.default",
       [](const auto& x) { return x * at::poisson(above_zero(x)); }},
      {"randperm", "aten::randperm.default",
       [](const auto& x) {
         return x * at::randperm(9216, x.options().dtype(at::kLong)).view({96, 96});
       }},
      {"rrelu", "aten::rrelu_with_noise_functional.default",
       [](const auto& x) { return at::rrelu(x.sin(), 0.1, 0.4, true); }},
      {"attention", "",
       [](const auto& x) {
         const auto q = x.view({1, 1, 96, 96});
         return at::scaled_dot_product_attention(q, q.sin(), q.cos(), std::nullopt, 0.3, true);
       }},
      {"own_generator", "aten::bernoulli.p",
       [](const auto& x) { return x * at::bernoulli(x.detach(), 0.4, own_generator(x.device())); }},
      {"own_and_default", "aten::rand.default",
       [](const auto& x) {
         return x * at::rand({96, 96}, x.options()) *
                at::rand({96, 96}, own_generator(x.device()), x.options()) *
                at::rand({96, 96}, x.options());
       }},
  };
}

class RandomPartition : public ::testing::TestWithParam<RandomCase> {};

List states(c10::Device device) {
  return {generator_state(device), own_generator(device).get_state()};
}

void expect_repeated(const RandomCase& c, c10::Device device) {
  auto body = [&](const at::Tensor& x) { return c.fn(x).sin(); };
  auto step = compile(body, Options().with_verify_graphs(true).with_min_cut(without_bans()));
  const auto x = at::randn({96, 96}).to(device).requires_grad_();
  const auto observe = [&](auto& call, int seed) {
    torch::manual_seed(seed);
    own_generator(device).set_current_seed(seed + 100);
    // Two calls whose backwards are pending, with a draw in between.
    const auto first = call(x), second = call(x);
    at::rand({3}, x.device());
    List seen{first.detach(), second.detach()};
    for (const auto& y : {first, second, first}) {
      for (auto& state : states(device)) seen.push_back(std::move(state));
      seen.push_back(torch::autograd::grad({y.sum()}, {x}, {}, /*retain_graph=*/true)[0]);
    }
    return seen;
  };
  for (int seed = 1; seed <= 4; ++seed) {
    EXPECT_TRUE(same_bits(observe(body, seed), observe(step, seed))) << "seed " << seed;
  }
  const auto report = step.report();
  EXPECT_EQ(report.eager_calls, 0);
  ASSERT_EQ(report.programs.size(), 1U);
  if (!device.is_cpu()) return;  // other operators there
  const auto& again = report.programs[0].recomputed;
  EXPECT_TRUE(c.op.empty() || again.contains(c.op)) << report;
  // The saved values are generator states, which are not tensors of the program.
  EXPECT_EQ(report.programs[0].saved_tensors, 0) << report;
  EXPECT_EQ(report.programs[0].saved_bytes % state_bytes("cpu", {}), 0) << report;
}

TEST_P(RandomPartition, RunsAgainToTheBit) {
  for (const auto device : devices()) {
    SCOPED_TRACE(device.str());
    expect_repeated(GetParam(), device);
  }
}

INSTANTIATE_TEST_SUITE_P(Operators, RandomPartition, ::testing::ValuesIn(random_cases()),
                         [](const auto& info) { return info.param.name; });

// Dropout outside of training: no state is saved, and the draw is none of the graph's.
TEST(Partition, ACallThatDrawsNothingRunsAgainWithoutAState) {
  for (const auto device : devices()) {
    SCOPED_TRACE(device.str());
    const auto body = [](const at::Tensor& x) {
      return std::get<0>(at::native_dropout(x.sin(), 0.4, /*train=*/false)).sin();
    };
    auto step = compile(body, Options().with_verify_graphs(true).with_min_cut(without_bans()));
    const auto x = at::randn({64, 64}).to(device).requires_grad_();
    const auto before = generator_state(device);
    const auto run = [&](auto& call) {
      const auto y = call(x);
      return List{y.detach(), torch::autograd::grad({y.sum()}, {x})[0]};
    };
    EXPECT_TRUE(same_bits(run(body), run(step)));
    EXPECT_TRUE(same_bits(generator_state(device), before));
    const auto program = step.report().programs.at(0);
    EXPECT_TRUE(program.recomputed.contains("aten::native_dropout.default"));
    EXPECT_EQ(program.saved_tensors, 0);
    EXPECT_EQ(program.saved_bytes, 0) << "states of generators";
  }
}

// Generator states take memory like tensors. The chain saves nothing else, and each draw is hardly
// larger than its state.
TEST(Partition, ThePredictedPeakCountsStatesOfGenerators) {
  constexpr int kDraws = 200;
  const auto body = [](const at::Tensor& x) {
    auto h = x;
    for (int i = 0; i < kDraws; ++i) h = h * at::rand_like(h);
    return h;
  };
  auto step = compile(body, Options().with_verify_graphs(true).with_min_cut(without_bans()));
  const auto x = at::randn({1408}).requires_grad_();
  const auto run = [&] {
    const auto y = step(x);
    return torch::autograd::grad({y}, {x}, {at::ones_like(y)});
  };
  run();
  MemoryMeter meter;
  run();
  const auto program = step.report().programs.at(0);
  EXPECT_EQ(program.recomputed.at("aten::rand_like.default"), kDraws);
  const auto state = state_bytes("cpu", {});
  EXPECT_EQ(program.saved_bytes, kDraws * state);
  EXPECT_EQ(program.predicted_peak_bytes, meter.peak_bytes()) << state;
}

// A loss that is homogeneous in W: the derivative along W is the loss. Fresh masks in the backward
// would give anything between 0.3 and 1.3.
TEST(Partition, AHomogeneousLossHasItsOwnDerivative) {
  at::manual_seed(3);
  const auto w = (at::rand({64, 64}) + 0.1).requires_grad_();
  const auto x = at::rand({4, 32, 64});
  const auto loss = [](const at::Tensor& x, const at::Tensor& w) {
    const auto h = at::dropout(at::matmul(x, w), 0.5, true);
    const auto heads = h.view({4, 32, 4, 16}).transpose(1, 2);
    const auto mixed =
        at::scaled_dot_product_attention(heads.detach(), heads.detach(), heads, std::nullopt, 0.5);
    return at::dropout(mixed, 0.5, true).sum();
  };
  for (const auto& options : {MinCutOptions(), without_bans()}) {
    auto step = compile(loss, Options().with_verify_graphs(true).with_min_cut(options));
    for (int i = 0; i < 3; ++i) {
      const auto value = step(x, w);
      const auto gradient = torch::autograd::grad({value}, {w})[0];
      EXPECT_NEAR(((gradient * w).sum() / value).template item<double>(), 1.0, 1e-5);
    }
  }
}

// Threads that draw from one generator: in any order of draws, each backward repeats the draws of
// its own forward.
TEST(Partition, ThreadsThatShareAGeneratorRepeatTheirOwnDraws) {
  const auto body = [](const at::Tensor& x, const at::Tensor& w) {
    return at::dropout(x, 0.5, true) * w;
  };
  auto step = compile(body, Options().with_audit(Audit::off).with_min_cut(without_bans()));
  const auto x = at::rand({96, 96}) + 0.5;
  step.warmup(x, at::ones({96, 96}).requires_grad_());
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      auto mine = step;
      const auto w = at::ones({96, 96}).requires_grad_();
      for (int i = 0; i < 100; ++i) {
        const auto y = mine(x, w);
        const auto gradient = torch::autograd::grad({y.sum()}, {w})[0];
        wrong += !same_bits(gradient, y.detach());
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_TRUE(step.report().programs.at(0).recomputed.contains("antegrad::draw_bools.default"))
      << step.report();
}

// --- kernels that do other things without grad mode ----------------------------------------------

TEST(Partition, TheLstmOfOneDnnRunsAgainInGradMode) {
  at::manual_seed(5);
  torch::nn::LSTM lstm(torch::nn::LSTMOptions(16, 16).batch_first(true));
  const auto x = at::randn({4, 6, 16});
  const auto body = [&](const at::Tensor& in) {
    return std::get<0>(lstm->forward(in)).sin().sum();
  };
  auto step = compile(lstm, body, Options().with_verify_graphs(true).with_min_cut(without_bans()));
  const auto parameters = lstm->parameters();
  EXPECT_TRUE(same_bits(torch::autograd::grad({body(x)}, parameters),
                        torch::autograd::grad({step(x)}, parameters)));
}

}  // namespace partition_test
}  // namespace antegrad::testing
