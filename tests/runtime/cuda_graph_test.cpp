// Compiled steps captured into CUDA graphs, with random draws that the backward repeats. Skipped
// without a GPU.

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <antegrad/antegrad.h>
#include <antegrad/checkpoint.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/cuda.h>
#include <torch/nn.h>
#include <torch/utils.h>

#include <functional>
#include <map>
#include <optional>

#include "support/bits.h"
#include "support/cuda_graph.h"
#include "support/options.h"

namespace antegrad::testing {
namespace cuda_graph_test {

using List = std::vector<at::Tensor>;
using Function = std::function<at::Tensor(const at::Tensor& x)>;

Options everything_runs_again() {
  return Options().with_verify_graphs(true).with_min_cut(without_bans());
}

// Kernels with atomic additions would differ from run to run.
class Deterministic {
 public:
  Deterministic() { at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true); }
  ~Deterministic() { at::globalContext().setDeterministicAlgorithms(before_, warn_only_); }

 private:
  bool before_ = at::globalContext().deterministicAlgorithms();
  bool warn_only_ = at::globalContext().deterministicAlgorithmsWarnOnly();
};

class CudaGraphs : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  }

  static at::Tensor leaf(at::IntArrayRef sizes) {
    return at::randn(sizes, at::device(at::kCUDA)).requires_grad_();
  }
  static at::Generator default_generator() {
    return at::globalContext().defaultGenerator(c10::Device(at::kCUDA, 0));
  }
  static at::Generator new_generator() {
    auto generator = default_generator().clone();
    generator.set_current_seed(5);
    return generator;
  }

  // Loss and gradients.
  static List run(const Function& fn, const at::Tensor& x, const List& leaves) {
    const auto loss = fn(x);
    List seen{loss.detach()};
    for (auto& gradient : torch::autograd::grad({loss.sum()}, leaves)) seen.push_back(gradient);
    return seen;
  }

  // Warms up and captures a step of `call`. Expects each replay to equal a step of `eager` from the
  // same generator state, including the state after it.
  static void expect_replays_of(const Function& eager, const Function& call, const at::Tensor& x,
                                const List& leaves, const std::optional<at::Generator>& own = {},
                                int warmups = 3) {
    on_side_stream(warmups, [&] { run(call, x, leaves); });
    List captured;
    CudaGraph graph([&] { captured = run(call, x, leaves); },
                    {.generators = own ? std::vector{*own} : std::vector<at::Generator>{}});
    const auto observe = [&](const std::function<List()>& step) {
      torch::manual_seed(11);
      if (own) at::Generator(*own).set_current_seed(12);
      std::vector<List> seen;
      for (int i = 0; i < 4; ++i) {
        seen.push_back(step());
        for (auto& t : seen.back()) t = t.clone();
        seen.back().push_back(at::rand({3}, x.options()));  // draws between steps
        seen.back().push_back(default_generator().get_state());
        if (own) seen.back().push_back(own->get_state());
      }
      return seen;
    };
    const auto expected = observe([&] { return run(eager, x, leaves); });
    const auto found = observe([&] {
      graph.replay();
      return captured;
    });
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_TRUE(same_bits(expected[i], found[i])) << "replay " << i;
      if (i > 0) {
        EXPECT_FALSE(same_bits(found[i][1], found[0][1])) << "the same numbers again";
      }
    }
  }
};

struct Draw {
  std::string name;
  std::string op;  // that is recomputed
  Function fn;
};

std::vector<Draw> draws() {
  return {
      {"dropout", "aten::native_dropout.default",
       [](const auto& x) { return at::dropout(x, 0.4, true).sin(); }},
      {"rand_like", "aten::rand_like.default",
       [](const auto& x) { return (x * at::rand_like(x)).sin(); }},
      {"randn", "aten::randn.default",
       [](const auto& x) { return (x * at::randn(x.sizes(), x.options())).sin(); }},
      {"bernoulli", "aten::bernoulli.p",
       [](const auto& x) { return (x * at::bernoulli(x.detach(), 0.7)).sin(); }},
      {"in_place", "",
       [](const auto& x) { return (x * at::empty_like(x).uniform_(0.5, 2)).sin(); }},
      {"several", "aten::native_dropout.default",
       [](const auto& x) {
         auto h = at::dropout(x, 0.3, true).sin() * at::rand_like(x);
         h = at::dropout(h, 0.5, true).cos() + at::randn_like(h);  // not read by the backward
         return std::get<0>(at::native_dropout(h * at::bernoulli(h.detach(), 0.4), 0.2, true))
             .exp();
       }},
  };
}

TEST_F(CudaGraphs, DrawsThatRunAgainAreEagersAtEachReplay) {
  for (const auto& draw : draws()) {
    SCOPED_TRACE(draw.name);
    const auto x = leaf({64, 65});
    auto step = compile(draw.fn, everything_runs_again());
    expect_replays_of(draw.fn, step, x, {x});
    const auto report = step.report();
    EXPECT_EQ(report.eager_calls, 0);
    ASSERT_EQ(report.programs.size(), 1U);
    EXPECT_TRUE(draw.op.empty() || report.programs[0].recomputed.contains(draw.op)) << report;
  }
}

TEST_F(CudaGraphs, DrawsThatAreSavedAreEagersAtEachReplay) {
  for (const auto& draw : draws()) {
    SCOPED_TRACE(draw.name);
    const auto x = leaf({64, 65});
    auto step = compile(draw.fn, Options().with_verify_graphs(true));
    expect_replays_of(draw.fn, step, x, {x});
    EXPECT_EQ(step.report().eager_calls, 0);
  }
}

TEST_F(CudaGraphs, AGeneratorOfTheCallerIsRepeatedFrom) {
  auto own = new_generator();
  const auto fn = [own](const at::Tensor& x) {
    return (x * at::rand(x.sizes(), own, x.options()) * at::rand_like(x) *
            at::bernoulli(x.detach(), 0.7, own))
        .sin();
  };
  const auto x = leaf({64, 65});
  auto step = compile(fn, everything_runs_again());
  expect_replays_of(fn, step, x, {x}, own);
  EXPECT_GE(step.report().programs.at(0).recomputed.count("aten::rand.generator") +
                step.report().programs.at(0).recomputed.count("aten::bernoulli.p"),
            1U)
      << step.report();
}

// A block of a GPT: attention with dropout, dropout on both residual branches, noise.
struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(int64_t width) {
    qkv = register_module("qkv", torch::nn::Linear(width, 3 * width));
    project = register_module("project", torch::nn::Linear(width, width));
    up = register_module("up", torch::nn::Linear(width, 4 * width));
    down = register_module("down", torch::nn::Linear(4 * width, width));
    norm1 = register_module("norm1", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})));
    norm2 = register_module("norm2", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})));
  }
  at::Tensor forward(at::Tensor x) {
    const auto sizes = x.sizes().vec();
    const auto heads = [&](const at::Tensor& t) {
      return t.view({sizes[0], sizes[1], 2, sizes[2] / 2}).transpose(1, 2);
    };
    const auto parts = qkv(norm1(x)).chunk(3, -1);
    auto h = at::scaled_dot_product_attention(heads(parts[0]), heads(parts[1]), heads(parts[2]),
                                              std::nullopt, 0.2, true);
    h = project(h.transpose(1, 2).reshape(sizes));
    x = x + at::dropout(h, 0.1, true);
    h = at::gelu(up(norm2(x) * at::rand_like(x)));
    return x + at::dropout(down(h), 0.1, true) * at::bernoulli(x.detach(), 0.9);
  }
  torch::nn::Linear qkv{nullptr}, project{nullptr}, up{nullptr}, down{nullptr};
  torch::nn::LayerNorm norm1{nullptr}, norm2{nullptr};
};
TORCH_MODULE(Block);

TEST_F(CudaGraphs, ABlockWithAttentionDropoutIsEagersAtEachReplay) {
  const Deterministic deterministic;
  for (const auto dtype : {at::kFloat, at::kHalf, at::kBFloat16}) {
    SCOPED_TRACE(c10::toString(dtype));
    torch::manual_seed(1);
    Block first(64), second(64);
    torch::nn::Sequential model(first, second);
    model->to(at::kCUDA, dtype);
    const auto x = leaf({2, 32, 64}).detach().to(dtype).requires_grad_();
    auto leaves = model->parameters();
    leaves.push_back(x);
    const auto fn = [&](const at::Tensor& in) { return model->forward(in).to(at::kFloat).tanh(); };
    auto step = compile(model, fn, everything_runs_again());
    expect_replays_of(fn, step, x, leaves);
    const auto report = step.report();
    EXPECT_EQ(report.eager_calls, 0);
    int64_t attention = 0;
    for (const auto& [op, count] : report.programs.at(0).recomputed) {
      if (op.find("attention") != std::string::npos) attention += count;
    }
    EXPECT_EQ(attention, 2) << report;
  }
}

TEST_F(CudaGraphs, ACheckpointDrawsAgainCompiledAndInEagerCode) {
  const auto block = [](const at::Tensor& x) {
    return (at::dropout(x, 0.4, true) * at::rand_like(x)).sin();
  };
  const auto fn = [&](const at::Tensor& x) { return checkpoint(block, x).cos(); };
  const auto x = leaf({64, 65});
  {
    SCOPED_TRACE("eager");
    expect_replays_of([&](const at::Tensor& in) { return block(in).cos(); }, fn, x, {x});
  }
  auto step = compile(fn, Options().with_verify_graphs(true));
  expect_replays_of(fn, step, x, {x});
  EXPECT_TRUE(step.report().programs.at(0).recomputed.contains("aten::native_dropout.default"));
}

// The second capture of the audit, or the first call, happens during the capture of the CUDA graph.
TEST_F(CudaGraphs, ACallableMayBeCapturedWhileAGraphIs) {
  const auto fn = draws().back().fn;
  const auto x = leaf({64, 65});
  on_side_stream(1, [&] { run(fn, x, {x}); });
  for (const int warmups : {3, 1, 0}) {
    SCOPED_TRACE(warmups);
    auto step = compile(fn, everything_runs_again());
    expect_replays_of(fn, step, x, {x}, {}, warmups);
    EXPECT_EQ(step.report().eager_calls, 0);
  }
}

// --- not in one graph ----------------------------------------------------------------------------

void expect_refused(const std::function<void()>& backward, const std::string& found) {
  try {
    backward();
    ADD_FAILURE() << "no error";
  } catch (const BackwardError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find(found), std::string::npos) << text;
    EXPECT_NE(text.find("capture both into one graph"), std::string::npos) << text;
  }
}

TEST_F(CudaGraphs, ForwardAndBackwardInDifferentGraphsAreRefused) {
  for (const auto& draw : draws()) {
    SCOPED_TRACE(draw.name);
    const auto x = leaf({64, 65});
    auto step = compile(draw.fn, everything_runs_again());
    on_side_stream(3, [&] { run(step, x, {x}); });
    at::Tensor y;
    const auto backward = [&] { torch::autograd::grad({y.sum()}, {x}); };
    CudaGraph forward([&] { y = step(x); });
    expect_refused([&] { CudaGraph graph(backward, {.memory_of = &forward}); },
                   "captured into another CUDA graph");
    CudaGraph again([&] { y = step(x); });
    expect_refused(backward, "and a backward in none");
    on_side_stream(1, [&] { y = step(x); });
    expect_refused([&] { CudaGraph graph(backward); }, "ran before the capture");
    // No state is left behind.
    expect_replays_of(draw.fn, step, x, {x});
  }
}

// The draws are saved, not repeated, so two CUDA graphs work as well as one.
TEST_F(CudaGraphs, SavedDrawsMayBeReadInAnotherGraph) {
  for (const auto& draw : draws()) {
    for (const auto& options : {Options(), Options().with_min_cut()}) {
      SCOPED_TRACE(draw.name);
      const auto x = leaf({64, 65});
      auto step = compile(draw.fn, Options(options).with_verify_graphs(true));
      on_side_stream(3, [&] { run(step, x, {x}); });
      at::Tensor y, gradient;
      CudaGraph forward([&] { y = step(x); });
      CudaGraph backward([&] { gradient = torch::autograd::grad({y.sum()}, {x})[0]; },
                         {.memory_of = &forward});
      torch::manual_seed(3);
      const auto expected = run(draw.fn, x, {x});
      torch::manual_seed(3);
      forward.replay();
      backward.replay();
      EXPECT_TRUE(same_bits(expected, {y.detach(), gradient}));
    }
  }
}

class SdpBackends {
 public:
  SdpBackends(bool flash, bool efficient, bool cudnn) { set(flash, efficient, cudnn); }
  ~SdpBackends() { set(true, true, true); }

 private:
  static void set(bool flash, bool efficient, bool cudnn) {
    at::globalContext().setSDPUseFlash(flash);
    at::globalContext().setSDPUseMemEfficient(efficient);
    at::globalContext().setSDPUseCuDNN(cudnn);
  }
};

// Without dropout attention draws nothing: the capture of make_graphed_callables may recompute it.
TEST_F(CudaGraphs, AttentionWithoutDropoutRunsAgainInAnotherGraph) {
  const Deterministic deterministic;
  const auto fn = [](const at::Tensor& x) {
    return at::scaled_dot_product_attention(x.sin(), x.cos(), x.exp(), std::nullopt, 0.0, true)
        .to(at::kFloat)
        .sin();
  };
  const auto x = leaf({2, 4, 64, 64}).detach().to(at::kBFloat16).requires_grad_();
  for (const int backend : {0, 1, 2}) {
    SCOPED_TRACE(backend);
    const SdpBackends only(backend == 0, backend == 1, backend == 2);
    for (const auto& options : {everything_runs_again(), Options().with_memory_share(0)}) {
      auto step = compile(fn, options);
      const auto state = default_generator().get_state();
      const auto expected = run(fn, x, {x});
      on_side_stream(3, [&] { run(step, x, {x}); });
      EXPECT_TRUE(same_bits(default_generator().get_state(), state)) << "the kernel draws";
      at::Tensor y, gradient;
      CudaGraph forward([&] { y = step(x); });
      CudaGraph backward([&] { gradient = torch::autograd::grad({y.sum()}, {x})[0]; },
                         {.memory_of = &forward});
      forward.replay();
      backward.replay();
      EXPECT_TRUE(same_bits(expected, {y.detach(), gradient}));
      EXPECT_EQ(step.report().eager_calls, 0);
    }
  }
}

}  // namespace cuda_graph_test
}  // namespace antegrad::testing
