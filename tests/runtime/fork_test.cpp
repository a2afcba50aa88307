// Child processes of a process that has captured, or that is capturing on another thread. Children
// run libtorch on one thread, since its thread pools do not survive a fork.

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <signal.h>
#include <sys/wait.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/utils.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "support/long_tests.h"
#include "support/parity.h"

namespace antegrad::testing {
namespace fork_test {

using Clock = std::chrono::steady_clock;

constexpr auto kLimit = std::chrono::seconds(30);

at::Tensor leaf(at::IntArrayRef sizes) { return at::randn(sizes).set_requires_grad(true); }

// Forks, runs `body` in the child, and expects it to return true in time.
::testing::AssertionResult in_child(const std::function<bool()>& body) {
  const auto child = fork();
  if (child == 0) {
    bool right = false;
    try {
      at::set_num_threads(1);
      right = body();
    } catch (...) {
    }
    _exit(right ? 0 : 1);  // skips the parent's exit handlers
  }
  const auto end = Clock::now() + kLimit;
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (Clock::now() > end) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      return ::testing::AssertionFailure() << "the child did not end in time";
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "the child ended with status " << status;
}

class Fork : public ::testing::Test {
 protected:
  // If a child is to run libtorch again, the parent must not have started its thread pools.
  int threads = at::get_num_threads();
  void SetUp() override {
    if (devices().size() > 1) GTEST_SKIP() << "a forked child cannot use CUDA";
    at::set_num_threads(1);
  }
  void TearDown() override { at::set_num_threads(threads); }
};

bool right_step(const std::function<at::Tensor(const at::Tensor&)>& step, const at::Tensor& w,
                const at::Tensor& x) {
  const auto gradient = [&](const at::Tensor& result) {
    return torch::autograd::grad({result.sum()}, {w})[0];
  };
  const auto eager = (x * w).sin(), found = step(x);
  return same_bits(eager, found) && same_bits(gradient(eager), gradient(found));
}

TEST_F(Fork, AChildCallsWhatTheParentCompiled) {
  const auto w = leaf({3}), x = at::randn({3});
  auto step = antegrad::compile([&](const at::Tensor& in) { return (in * w).sin(); });
  EXPECT_TRUE(right_step(step, w, x));
  EXPECT_TRUE(in_child([&] {
    return right_step(step, w, x) && step.report().compiled_calls == 2 &&
           step.report().programs.size() == 1;
  }));
  EXPECT_TRUE(right_step(step, w, x));
  EXPECT_EQ(step.report().compiled_calls, 2);
}

TEST_F(Fork, AChildCapturesAndRunsBackwardsOfTheParentsForwards) {
  const auto w = leaf({3}), x = at::randn({3});
  auto step = antegrad::compile([&](const at::Tensor& in) { return (in * w).sin(); });
  const auto result = step(x);
  EXPECT_TRUE(in_child([&] {
    const auto expected = torch::autograd::grad({(x * w).sin().sum()}, {w})[0];
    return same_bits(torch::autograd::grad({result.sum()}, {w})[0], expected) &&
           right_step(step, w, at::randn({2, 3})) && step.report().programs.size() == 2 &&
           step.report().eager_calls == 0;
  }));
}

TEST_F(Fork, AChildOfAChild) {
  const auto w = leaf({3}), x = at::randn({3});
  auto step = antegrad::compile([&](const at::Tensor& in) { return (in * w).sin(); });
  step(x);
  EXPECT_TRUE(in_child([&] {
    return right_step(step, w, x) && static_cast<bool>(in_child([&] {
             return right_step(step, w, at::randn({5, 3}));
           }));
  }));
}

// Forks repeatedly until `done`, while another thread runs `work` in a loop.
void fork_beside(const std::function<void()>& work, const std::function<bool()>& in_each_child,
                 int forks) {
  std::atomic<bool> stop = false;
  std::atomic<int64_t> rounds = 0;
  std::thread other([&] {
    while (!stop) {
      work();
      ++rounds;
    }
  });
  while (rounds == 0) std::this_thread::yield();
  for (int n = 0; n < forks; ++n) EXPECT_TRUE(in_child(in_each_child)) << "fork " << n;
  stop = true;
  other.join();
}

TEST_F(Fork, WhileAnotherThreadCapturesTheSameCallable) {
  const auto w = leaf({3}), x = at::randn({3});
  auto step = antegrad::compile([&](const at::Tensor& in) { return (in * w).sin(); });
  fork_beside(
      [&] {
        step.reset();
        step.warmup(x);
      },
      [&] {
        step.reset();
        return right_step(step, w, x) && step.report().eager_calls == 0;
      },
      long_tests() ? 200 : 20);
}

TEST_F(Fork, WhileAnotherThreadCapturesAnother) {
  const auto w = leaf({3}), x = at::randn({3});
  auto step = antegrad::compile([&](const at::Tensor& in) { return (in * w).sin(); });
  auto other = antegrad::compile([](const at::Tensor& in) { return in.cos().tanh().exp().sum(); },
                                 Options().with_audit(Audit::every));
  step(x);
  fork_beside([&] { other(x); }, [&] { return right_step(step, w, x); }, long_tests() ? 200 : 20);
}

// A thread that forks waits for the end of a capture, however long that takes.
TEST_F(Fork, WaitsForACaptureThatTakesTime) {
  std::atomic<bool> inside = false;
  const auto w = leaf({3}), x = at::randn({3});
  auto slow = antegrad::compile([&](const at::Tensor& in) {
    inside = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    return (in * w).sin();
  });
  std::thread other([&] { slow.warmup(x); });
  while (!inside) std::this_thread::yield();
  EXPECT_TRUE(
      in_child([&] { return right_step(slow, w, x) && slow.report().programs.size() == 1; }));
  other.join();
}

// Forking inside the callable must not wait for the capture that it is part of.
TEST_F(Fork, InsideTheCallable) {
  const auto w = leaf({3}), x = at::randn({3});
  int children = 0;
  auto step = antegrad::compile([&](const at::Tensor& in) {
    EXPECT_TRUE(in_child([&] {
      return antegrad::compile([](const at::Tensor& t) { return t; }).report().programs.empty();
    }));
    ++children;
    return (in * w).sin();
  });
  EXPECT_TRUE(right_step(step, w, x));
  EXPECT_GE(children, 1);
}

}  // namespace fork_test
}  // namespace antegrad::testing
