// Streams, generators and autograd's threads on a GPU. Skipped without a GPU.

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/cuda.h>
#include <torch/utils.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "runtime/at_once.h"
#include "support/parity.h"

namespace antegrad::testing {
namespace cuda_test {

using List = std::vector<at::Tensor>;

class Cuda : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  }

  static at::Tensor randn(at::IntArrayRef sizes) { return at::randn(sizes, at::device(at::kCUDA)); }
  static at::Tensor leaf(at::IntArrayRef sizes) { return randn(sizes).requires_grad_(); }
  static c10::Stream new_stream() {
    const c10::impl::VirtualGuardImpl device(at::kCUDA);
    return device.getNewStream(device.getDevice());
  }
  static void wait_for_all() { torch::cuda::synchronize(); }
};

// Takes long enough on the device for a wrong order to show.
at::Tensor network(const at::Tensor& x, const at::Tensor& w) {
  auto h = x;
  for (int i = 0; i < 6; ++i) h = (h.matmul(w) * 0.03).tanh();
  return h;
}

TEST_F(Cuda, ForwardAndBackwardRunOnTheStreamOfTheCall) {
  const auto w = leaf({1024, 1024});
  const auto x = randn({1024, 1024});
  const auto fn = [&](const at::Tensor& in) { return network(in, w); };
  auto step = antegrad::compile(fn);
  const auto run = [&](auto& callable) {
    const auto result = callable(x + 1).sum();
    return List{result.detach(), torch::autograd::grad(List{result}, List{w})[0]};
  };
  const auto expected = run(fn);
  run(step);  // captured on the default stream
  wait_for_all();
  for (int n = 0; n < 5; ++n) {
    const auto stream = new_stream();
    List found;
    c10::Event done(at::kCUDA);
    {
      const c10::StreamGuard guard(stream);
      found = run(step);
      done.record(stream);
    }
    // Only the stream of the call orders its work: when the stream is done, all work is done.
    done.synchronize();
    EXPECT_TRUE(same_bits(found, expected));
  }
  EXPECT_EQ(step.report().eager_calls, 0);
  EXPECT_EQ(step.report().programs.size(), 1U);
}

TEST_F(Cuda, ABackwardAfterTheStreamWasLeftWaitsForTheForward) {
  const auto w = leaf({1024, 1024});
  const auto x = randn({1024, 1024});
  auto step = antegrad::compile([&](const at::Tensor& in) { return network(in, w); });
  const auto expected = torch::autograd::grad(List{network(x, w).sum()}, List{w})[0];
  for (int n = 0; n < 5; ++n) {
    const auto stream = new_stream();
    wait_for_all();
    at::Tensor result;
    {
      const c10::StreamGuard guard(stream);
      result = step(x).sum();
    }
    // The engine runs the node on the forward's stream and makes the current one wait.
    const auto gradient = torch::autograd::grad(List{result}, List{w})[0];
    EXPECT_TRUE(same_bits(gradient, expected));
  }
}

TEST_F(Cuda, RandomNumbersAndTheGeneratorAreEagers) {
  const auto fn = [](const at::Tensor& x) {
    return at::dropout(x * at::rand_like(x), 0.5, /*train=*/true) + at::randn_like(x);
  };
  auto step = antegrad::compile(fn);
  const auto x = leaf({64, 33});
  const auto run = [&](auto& callable) {
    torch::manual_seed(3);
    List seen;
    for (int n = 0; n < 3; ++n) {
      seen.push_back(callable(x));
      seen.push_back(torch::autograd::grad(List{seen.back()}, List{x}, {at::ones_like(x)})[0]);
      seen.push_back(randn({5}));  // draws between calls
    }
    seen.push_back(at::globalContext().defaultGenerator(x.device()).get_state());
    return seen;
  };
  const auto expected = run(fn), found = run(step);
  EXPECT_TRUE(same_bits(found, expected));
  EXPECT_EQ(step.report().eager_calls, 0);
}

TEST_F(Cuda, AGeneratorOfTheCallerIsAdvanced) {
  const auto draw = [](at::Generator generator) {
    const auto fn = [generator](const at::Tensor& x) {
      return x + at::rand(x.sizes(), generator, x.options());
    };
    return fn;
  };
  const auto x = randn({7});
  const auto mine = [&] {
    auto generator = at::globalContext().defaultGenerator(x.device()).clone();
    generator.set_current_seed(5);
    return generator;
  };
  const auto of_eager = mine(), of_program = mine();
  const auto eager = draw(of_eager);
  auto step = antegrad::compile(draw(of_program));
  for (int n = 0; n < 3; ++n) EXPECT_TRUE(same_bits(step(x), eager(x)));
  EXPECT_TRUE(same_bits(of_program.get_state(), of_eager.get_state()));
}

TEST_F(Cuda, ThreadsCallAndDifferentiateOneProgramOnTheirOwnStreams) {
  const auto w = leaf({256, 256});
  auto step = antegrad::compile([&](const at::Tensor& in) { return network(in, w); });
  constexpr int kThreads = 4;
  List inputs;
  std::vector<List> expected;
  const auto run = [&](auto&& callable, const at::Tensor& x) {
    const auto result = callable(x).sum();
    return List{result.detach(), torch::autograd::grad(List{result}, List{w})[0]};
  };
  for (int t = 0; t < kThreads; ++t) {
    inputs.push_back(randn({64, 256}));
    expected.push_back(run([&](const at::Tensor& in) { return network(in, w); }, inputs.back()));
  }
  wait_for_all();
  std::atomic<int> wrong = 0;
  at_once(kThreads, [&](int t) {
    const auto i = static_cast<size_t>(t);
    const c10::StreamGuard guard(new_stream());
    for (int n = 0; n < 10; ++n) wrong += !same_bits(run(step, inputs[i]), expected[i]);
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(step.report().eager_calls, 0);
  EXPECT_EQ(step.report().programs.size(), 1U);
}

// The engine has one thread per device, which captures the unusual backward.
TEST_F(Cuda, AnUnusualBackwardIsCapturedOnTheEnginesThread) {
  const auto x = leaf({8, 8});
  const auto fn = [](const at::Tensor& in) { return std::pair{in.sin().t(), in.exp()}; };
  auto step = antegrad::compile(fn);
  const auto gradient = [&](auto& callable) {
    const auto [a, b] = callable(x);
    return torch::autograd::grad(List{a}, List{x},
                                 {at::ones({8, 1}, x.options()).expand({8, 8})})[0];
  };
  const auto expected = gradient(fn);
  EXPECT_TRUE(same_bits(gradient(step), expected));
  at::Tensor elsewhere;
  std::thread([&] { elsewhere = gradient(step); }).join();
  EXPECT_TRUE(same_bits(elsewhere, expected));
  EXPECT_EQ(step.report().eager_calls, 0);
}

TEST_F(Cuda, AnArgumentOnTheOtherDeviceIsCapturedAnew) {
  auto step = antegrad::compile([](const at::Tensor& in) { return in.sin() * 2; });
  const auto x = at::randn({5});
  EXPECT_TRUE(same_bits(step(x), x.sin() * 2));
  EXPECT_TRUE(same_bits(step(x.cuda()), x.cuda().sin() * 2));
  EXPECT_EQ(step.report().programs.size(), 2U);
  EXPECT_NE(step.report().recompiles.at(0).find("cuda"), std::string::npos);
}

TEST_F(Cuda, TensorsOfTwoDevicesAreRefusedAndTheNextCallWorks) {
  auto step =
      antegrad::compile([](const at::Tensor& x, const at::Tensor& y) { return x.matmul(y); });
  try {
    step(randn({2, 3}), at::randn({3, 2}));
    ADD_FAILURE() << "no error";
  } catch (const c10::Error& error) {
    EXPECT_NE(std::string(error.what()).find("device"), std::string::npos) << error.what();
  }
  EXPECT_EQ(step(randn({2, 3}), randn({3, 2})).sizes(), at::IntArrayRef({2, 2}));
}

// Zeros as weights or pivots fail on an assertion of the device, which no process survives.
TEST_F(Cuda, TryingKernelsLeavesTheDeviceUsable) {
  const auto fn = [](const at::Tensor& x) {
    const auto drawn = at::multinomial(x.softmax(1), 4, /*replacement=*/true);
    const auto [lu, pivots] = at::linalg_lu_factor(x);
    const auto [p, l, u] = at::lu_unpack(lu, pivots);
    const auto solved = at::linalg_lu_solve(lu, pivots, x.sin());
    const auto factor = at::linalg_cholesky(x.mm(x.t()) + 8 * at::eye(8, x.options()));
    return (p.mm(l).mm(u) * solved * factor.exp()).gather(1, drawn).sin();
  };
  const auto x = leaf({8, 8});
  const auto run = [&](auto& callable) {
    torch::manual_seed(3);
    const auto result = callable(x);
    return List{result.detach(), torch::autograd::grad({result.sum()}, {x})[0]};
  };
  const auto expected = run(fn);
  for (const auto& options :
       {Options().with_memory_share(0.5).with_budget_profile(BudgetProfile::measured),
        Options().with_cross_check_shapes(CrossCheckShapes::use_kernel)}) {
    auto step = antegrad::compile(fn, options);
    EXPECT_TRUE(same_bits(run(step), expected));
    EXPECT_EQ(step.report().eager_calls, 0);
    EXPECT_NO_THROW(wait_for_all());
    EXPECT_EQ(at::ones({3}, x.options()).sum().item<float>(), 3);
  }
  const auto checks = [&] {
    auto step =
        antegrad::compile(fn, Options().with_cross_check_shapes(CrossCheckShapes::use_kernel));
    run(step);
    return step.report().programs.at(0).shape_checks;
  }();
  for (const char* op : {"aten::multinomial.default", "aten::lu_unpack.default"}) {
    EXPECT_GE(checks.at(op).checked, 1) << op;
    EXPECT_EQ(checks.at(op).skipped, 0) << op;
  }
}

// Run it with PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync too.
TEST_F(Cuda, AByteBudgetNeedsAnAllocatorThatReports) {
  const char* configuration = std::getenv("PYTORCH_CUDA_ALLOC_CONF");
  const bool reports = configuration == nullptr || std::strstr(configuration, "Async") == nullptr;
  const auto w = leaf({64, 64});
  const auto fn = [&](const at::Tensor& in) { return network(in, w).logsumexp(1); };
  const auto x = randn({64, 64});
  auto in_bytes = antegrad::compile(fn, Options().with_memory_budget(64_MiB));
  if (reports) {
    EXPECT_TRUE(same_bits(in_bytes(x).detach(), fn(x).detach()));
  } else {
    EXPECT_THROW(in_bytes(x), OptionError);
  }
  auto by_share = antegrad::compile(fn, Options().with_memory_share(0));
  EXPECT_TRUE(same_bits(by_share(x).detach(), fn(x).detach()));
}

TEST_F(Cuda, NumbersThatChangeAreInputsOfOneProgram) {
  const auto fn = [](const at::Tensor& x, const auto& v) {
    return at::add((x * v).sin() / v, x, 1 - v).clamp(-4 * v, v).mul(x.sum() * v) +
           at::full({3}, v, x.options());
  };
  auto step = antegrad::compile(fn);
  const auto x = leaf({5, 3});
  for (const double v : {0.3, 0.5, -2.0, 7.0}) {
    const auto run = [&](auto& callable, const auto& number) {
      const auto result = callable(x, number);
      return List{result.detach(), torch::autograd::grad({result.sum()}, {x})[0]};
    };
    EXPECT_TRUE(same_bits(run(step, antegrad::dynamic(v)), run(fn, v))) << v;
  }
  EXPECT_EQ(step.report().programs.size(), 1U);
  EXPECT_EQ(step.report().eager_calls, 0);
}

// "cuda" is the current device: shape functions and kernels agree on its index.
TEST_F(Cuda, ADeviceWithoutAnIndexIsTheCurrentOne) {
  const auto cuda = at::device(at::kCUDA);
  const auto fn = [&](const at::Tensor& x) {
    return x * at::ones({3}, cuda) + at::arange(3, cuda) + at::zeros_like(x, cuda) +
           at::rand({3}, cuda) + at::full({}, 2, cuda);
  };
  const auto x = leaf({3});
  auto step = antegrad::compile(
      fn, Options().with_cross_check_shapes(CrossCheckShapes::error).with_verify_graphs(true));
  const auto run = [&](auto& callable) {
    torch::manual_seed(3);
    const auto result = callable(x);
    return List{result.detach(), torch::autograd::grad({result.sum()}, {x})[0]};
  };
  EXPECT_TRUE(same_bits(run(step), run(fn)));
  const auto checks = step.report().programs.at(0).shape_checks;
  EXPECT_EQ(checks.at("aten::ones.default").shape_functions, 1);
  EXPECT_EQ(checks.at("aten::ones.default").checked, 1);
}

}  // namespace cuda_test
}  // namespace antegrad::testing
