// Programs that run as CUDA graphs (Options::gpu_graphs): the bits of eager mode, whatever is held
// and whatever changes between calls. Skipped without a GPU; what needs none is in unit/torch.

#include <torch/csrc/autograd/autograd.h>
#include <torch/utils.h>

#include <atomic>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "gpu_graphs.h"
#include "support/bits.h"
#include "support/cuda_graph.h"

namespace antegrad::testing {
namespace gpu_graphs_test {

using Callable = std::function<at::Tensor(const List&)>;

at::Tensor layers(const List& xs) {
  return ((xs[0].mm(xs[1]).tanh() * xs[2]).mm(xs[1].t()).sigmoid() + xs[0]).square().sum();
}

// ---- what is still held ------------------------------------------------------------------------

// Loss and gradients of eager mode.
List expected_of(const Callable& fn, const List& inputs) {
  List leaves;
  for (const auto& input : inputs) {
    leaves.push_back(input.detach().clone().requires_grad_(input.requires_grad()));
  }
  return trained(fn, leaves);
}

void clear(const List& inputs) {
  for (const auto& input : inputs) input.mutable_grad().reset();
}

template <class Step>
void warm_up(Step& step, const List& inputs, int times = 8) {
  for (int i = 0; i < times; ++i) {
    trained(step, inputs);
    clear(inputs);
  }
}

TEST_F(GpuGraphsTest, ResultsAndGradientsAreKept) {
  auto step = compile(layers, with_graphs());
  const List inputs{gpu_leaf({16, 16}), gpu_leaf({16, 16}), gpu_leaf({16, 16})};
  const auto expected = expected_of(layers, inputs);
  std::vector<List> kept;
  for (int i = 0; i < 12; ++i) {
    kept.push_back(trained(step, inputs));
    clear(inputs);
  }
  for (const auto& found : kept) EXPECT_TRUE(same_bits(found, expected));
  EXPECT_GT(forward(step).replays, 5) << step.report();
}

TEST_F(GpuGraphsTest, ForwardsBeforeTheirBackwards) {
  auto step = compile(layers, with_graphs());
  const List a{gpu_leaf({16, 16}), gpu_leaf({16, 16}), gpu_leaf({16, 16})};
  warm_up(step, a);
  const auto expected = expected_of(layers, a);
  const auto replays = forward(step).replays;
  for (int i = 0; i < 5; ++i) {
    const at::Tensor first = step(a), second = step(a), third = step(a);
    second.backward();
    const auto check = [&](const at::Tensor& loss) {
      List found{loss.detach()};
      for (const auto& input : a) found.push_back(input.grad());
      EXPECT_TRUE(same_bits(found, expected));
      clear(a);
    };
    check(second);
    first.backward();
    check(first);
    third.backward();
    check(third);
  }
  EXPECT_EQ(forward(step).replays, replays + 5) << step.report();
  EXPECT_EQ(count(step, "still held"), 10) << step.report();
}

TEST_F(GpuGraphsTest, RetainedGraphs) {
  auto step = compile(layers, with_graphs());
  const List inputs{gpu_leaf({16, 16}), gpu_leaf({16, 16}), gpu_leaf({16, 16})};
  const auto expected = expected_of(layers, inputs);
  for (int i = 0; i < 12; ++i) {
    const at::Tensor loss = step(inputs);
    for (const bool retains : {true, true, false}) {
      loss.backward({}, retains);
      List found{loss.detach()};
      for (const auto& input : inputs) found.push_back(input.grad());
      EXPECT_TRUE(same_bits(found, expected)) << "call " << i;
      clear(inputs);
    }
  }
  EXPECT_GT(backward(step).replays, 10) << step.report();
}

TEST_F(GpuGraphsTest, ACallWithoutBackward) {
  auto step = compile(layers, with_graphs());
  const List inputs{gpu_leaf({16, 16}), gpu_leaf({16, 16}), gpu_leaf({16, 16})};
  warm_up(step, inputs);
  const auto expected = expected_of(layers, inputs);
  {
    const at::Tensor never = step(inputs);
    EXPECT_TRUE(same_bits(trained(step, inputs), expected));
    clear(inputs);
    EXPECT_EQ(count(step, "still held"), 1);
  }
  const auto before = forward(step).replays;
  EXPECT_TRUE(same_bits(trained(step, inputs), expected));
  EXPECT_EQ(forward(step).replays, before + 1) << step.report();
}

// ---- what changes between calls ----------------------------------------------------------------

TEST_F(GpuGraphsTest, InputsAtOtherAddresses) {
  auto step = compile(layers, with_graphs());
  const auto w = gpu_leaf({16, 16}), v = gpu_leaf({16, 16});
  List held;  // so that the allocator does not use the same memory again
  for (int i = 0; i < 20; ++i) {
    held.push_back(on_gpu({16, 16}));
    const List inputs{held.back(), w, v};
    EXPECT_TRUE(same_bits(trained(step, inputs), expected_of(layers, inputs))) << "call " << i;
    clear({w, v});
  }
  EXPECT_GT(forward(step).replays, 10) << step.report();
}

TEST_F(GpuGraphsTest, ParametersThatMove) {
  auto step = compile(layers, with_graphs());
  const auto x = on_gpu({16, 16});
  for (int i = 0; i < 4; ++i) {
    const List inputs{x, gpu_leaf({16, 16}), gpu_leaf({16, 16})};
    for (int k = 0; k < 8; ++k) {
      EXPECT_TRUE(same_bits(trained(step, inputs), expected_of(layers, inputs)));
      clear(inputs);
    }
  }
  EXPECT_GT(forward(step).replays, 10) << step.report();
}

TEST_F(GpuGraphsTest, BatchesOfChangingSizes) {
  auto step = compile(layers, with_graphs());
  const auto w = gpu_leaf({16, 16});
  for (int i = 0; i < 30; ++i) {
    const int64_t rows = 8 + 4 * (i % 3);
    const List inputs{on_gpu({rows, 16}), w, gpu_leaf({rows, 16})};
    EXPECT_TRUE(same_bits(trained(step, inputs), expected_of(layers, inputs))) << "call " << i;
    clear({w});
  }
  const auto report = step.report();
  EXPECT_EQ(report.eager_calls, 0);
  ASSERT_EQ(report.programs.size(), 3U);
  for (const auto& program : report.programs) EXPECT_GT(program.gpu_graphs[0].replays, 3) << report;
}

TEST_F(GpuGraphsTest, AnotherStream) {
  auto step = compile(layers, with_graphs());
  const List inputs{gpu_leaf({64, 64}), gpu_leaf({64, 64}), gpu_leaf({64, 64})};
  warm_up(step, inputs);
  const auto expected = expected_of(layers, inputs);
  const auto guard = c10::impl::VirtualGuardImpl(at::kCUDA);
  const auto other = guard.getStreamFromGlobalPool(inputs[0].device());
  torch::cuda::synchronize();
  for (int i = 0; i < 8; ++i) {
    {
      const c10::StreamGuard here(other);
      EXPECT_TRUE(same_bits(trained(step, inputs), expected));
      clear(inputs);
    }
    torch::cuda::synchronize();
  }
  EXPECT_EQ(forward(step).recorded, 2) << step.report();
}

TEST_F(GpuGraphsTest, ASwitchOfLibtorch) {
  at::globalContext().setAllowTF32CuBLAS(false);
  auto step = compile(layers, with_graphs());
  const List inputs{gpu_leaf({64, 64}), gpu_leaf({64, 64}), gpu_leaf({64, 64})};
  warm_up(step, inputs);
  const auto seen = [&](auto& callable, bool tf32) {
    const at::Tensor loss = callable(inputs);
    at::globalContext().setAllowTF32CuBLAS(tf32);  // the backward finds another switch
    loss.backward();
    at::globalContext().setAllowTF32CuBLAS(false);
    List all{loss.detach()};
    for (const auto& input : inputs) all.push_back(input.grad());
    clear(inputs);
    return all;
  };
  for (int i = 0; i < 12; ++i) {
    const bool tf32 = i / 2 % 2 == 0;
    EXPECT_TRUE(same_bits(seen(step, tf32), seen(layers, tf32))) << "call " << i;
  }
  EXPECT_GT(count(step, "switch"), 0) << step.report();
}

TEST_F(GpuGraphsTest, InferenceAndNoGrad) {
  auto step = compile(layers, with_graphs());
  const List inputs{on_gpu({16, 16}), on_gpu({16, 16}), on_gpu({16, 16})};
  const auto expected = layers(inputs);
  for (int i = 0; i < 6; ++i) {
    const at::NoGradGuard no_grad;
    EXPECT_TRUE(same_bits(step(inputs), expected));
  }
  for (int i = 0; i < 6; ++i) {
    const c10::InferenceMode inference;
    const at::Tensor found = step(inputs);
    EXPECT_TRUE(found.is_inference());
    EXPECT_TRUE(same_bits(found, expected));
  }
}

TEST_F(GpuGraphsTest, GradientsOfGradients) {
  auto step = compile(layers, with_graphs().with_higher_derivatives(true));
  const List inputs{gpu_leaf({16, 16}), gpu_leaf({16, 16}), gpu_leaf({16, 16})};
  const auto seen = [&](auto& callable) {
    const at::Tensor loss = callable(inputs);
    const auto slope = torch::autograd::grad({loss}, {inputs[0]}, {}, std::nullopt, true)[0];
    (loss + slope.square().sum()).backward();
    List all{loss.detach(), slope.detach()};
    for (const auto& input : inputs) all.push_back(input.grad());
    clear(inputs);
    return all;
  };
  const auto expected = seen(layers);
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(same_bits(seen(step), expected)) << "call " << i;
  EXPECT_EQ(step.report().eager_calls, 0);
}

// ---- what has no graph -------------------------------------------------------------------------

TEST_F(GpuGraphsTest, DrawsRunNodeByNode) {
  const auto fn = [](const List& xs) { return at::dropout(xs[0] * 2, 0.4, true).sin().sum(); };
  auto step = compile(fn, with_graphs());
  const List inputs{gpu_leaf({64})};
  for (int i = 0; i < 6; ++i) {
    torch::manual_seed(i);
    const auto found = trained(step, inputs);
    clear(inputs);
    torch::manual_seed(i);
    EXPECT_TRUE(same_bits(found, expected_of(fn, inputs)));
  }
  EXPECT_EQ(forward(step).replays, 0);
  EXPECT_NE(forward(step).refused.find("draws random numbers"), std::string::npos);
}

// The kernel counts what a mask selects, which the graph of operators does not tell.
TEST_F(GpuGraphsTest, AnOperatorThatWaitsForTheDevice) {
  const auto fn = [](const List& xs) {
    c10::List<std::optional<at::Tensor>> mask;
    mask.push_back(xs[1]);
    return (at::index_put(xs[0], mask, xs[2]) * xs[0]).sin().sum();
  };
  auto step = compile(fn, with_graphs());
  const auto mask = at::arange(16, at::kCUDA).remainder(4).eq(0);
  const List inputs{gpu_leaf({16}), mask, on_gpu({4})};
  for (int i = 0; i < 6; ++i) {
    EXPECT_TRUE(same_bits(trained(step, inputs), expected_of(fn, inputs)));
    clear({inputs[0]});
  }
  EXPECT_EQ(step.report().eager_calls, 0);
  EXPECT_NE(forward(step).refused.find("could not be recorded"), std::string::npos)
      << step.report();
  // Nothing is left of the attempt: other programs are recorded.
  auto other = compile(layers, with_graphs());
  const List more{gpu_leaf({16, 16}), gpu_leaf({16, 16}), gpu_leaf({16, 16})};
  warm_up(other, more);
  EXPECT_GT(forward(other).replays, 0) << other.report();
}

TEST_F(GpuGraphsTest, AnErrorInBetween) {
  auto step = compile(layers, with_graphs());
  const List inputs{gpu_leaf({16, 16}), gpu_leaf({16, 16}), gpu_leaf({16, 16})};
  warm_up(step, inputs);
  const auto expected = expected_of(layers, inputs);
  const auto replays = backward(step).replays;
  EXPECT_ANY_THROW(step(List{inputs[0], gpu_leaf({3, 5}), inputs[2]}));
  const auto hook = inputs[1].register_hook(
      [](const at::Tensor&) -> at::Tensor { throw std::runtime_error("a hook of the user's"); });
  EXPECT_ANY_THROW(trained(step, inputs));
  inputs[1].remove_hook(hook);
  clear(inputs);
  for (int i = 0; i < 6; ++i) {
    EXPECT_TRUE(same_bits(trained(step, inputs), expected)) << "call " << i;
    clear(inputs);
  }
  EXPECT_GT(backward(step).replays, replays) << step.report();
}

TEST_F(GpuGraphsTest, TheUsersOwnCapture) {
  auto step = compile(layers, with_graphs());
  const List inputs{gpu_leaf({16, 16}), gpu_leaf({16, 16}), gpu_leaf({16, 16})};
  const auto eager = [&] {
    const at::Tensor loss = layers(inputs);
    List all{loss.detach()};
    for (auto& gradient : torch::autograd::grad({loss}, inputs)) all.push_back(gradient);
    return all;
  };
  const auto ours = [&] {
    const at::Tensor loss = step(inputs);
    List all{loss.detach()};
    for (auto& gradient : torch::autograd::grad({loss}, inputs)) all.push_back(gradient);
    return all;
  };
  on_side_stream(8, [&] { ours(); });
  const auto replays = forward(step).replays;
  List captured;
  CudaGraph graph([&] { captured = ours(); });
  EXPECT_EQ(forward(step).replays, replays);
  for (int i = 0; i < 3; ++i) {
    {
      const at::NoGradGuard no_grad;
      for (auto& input : inputs) input.add_(0.01);
    }
    graph.replay();
    EXPECT_TRUE(same_bits(captured, eager()));
  }
}

TEST_F(GpuGraphsTest, SeveralThreads) {
  auto step = compile(layers, with_graphs());
  const List inputs{on_gpu({16, 16}), on_gpu({16, 16}), on_gpu({16, 16})};
  const auto expected = layers(inputs);
  for (int i = 0; i < 4; ++i) step(inputs);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        if (!same_bits(step(inputs), expected)) ++wrong;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(GpuGraphsTest, ResetGivesTheMemoryBack) {
  auto step = compile(layers, with_graphs());
  const List inputs{gpu_leaf({16, 16}), gpu_leaf({16, 16}), gpu_leaf({16, 16})};
  warm_up(step, inputs);
  const auto expected = expected_of(layers, inputs);
  const at::Tensor loss = step(inputs);  // what it saved lies in the graph's memory
  EXPECT_GT(forward(step).bytes, 0);
  step.reset();
  EXPECT_TRUE(step.report().programs.empty());
  loss.backward();
  List found{loss.detach()};
  for (const auto& input : inputs) found.push_back(input.grad());
  EXPECT_TRUE(same_bits(found, expected));
  clear(inputs);
  EXPECT_TRUE(same_bits(trained(step, inputs), expected));
}

}  // namespace gpu_graphs_test
}  // namespace antegrad::testing
