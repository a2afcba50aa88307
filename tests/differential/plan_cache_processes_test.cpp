// Many processes that fill and read one directory of plans and kernels, while its files are harmed
// at random and processes are killed: each trains with eager's bits.

#include <ATen/ATen.h>
#include <antegrad/antegrad.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <torch/csrc/autograd/autograd.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "support/bits.h"
#include "support/folder.h"
#include "support/long_tests.h"

namespace antegrad::testing {
namespace plan_cache_processes_test {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using List = std::vector<at::Tensor>;

// Set in the processes that train.
const char* cache_directory() { return std::getenv("ANTEGRAD_TEST_CACHE"); }

at::Tensor loss(const List& xs) {
  auto h = xs[0];
  for (size_t i = 1; i < xs.size(); ++i) {
    h = at::dropout(at::gelu(h.mm(xs[i])), 0.25, true).sin().exp() * h.sigmoid();
  }
  return h.square().mean();
}

template <class Callable>
List gradients(const Callable& callable, const List& xs) {
  at::manual_seed(7);
  return torch::autograd::grad({callable(xs)}, xs);
}

// Trains over and over with programs of different sizes, until it is killed or the time is up.
TEST(PlanCacheProcesses, TrainsInAProcessOfItsOwn) {
  if (cache_directory() == nullptr) GTEST_SKIP() << "runs in the processes of TheStorm";
  set_logs("-cache,-kernels");
  const auto end = Clock::now() + std::chrono::seconds(std::atoi(std::getenv("ANTEGRAD_TEST_FOR")));
  std::mt19937 random(static_cast<unsigned>(getpid()));
  int steps = 0;
  while (Clock::now() < end || steps == 0) {
    const auto rows = 16 + 8 * static_cast<int64_t>(random() % 4);
    List xs{at::randn({rows, 48}).requires_grad_()};
    for (int i = 0; i < 3; ++i) xs.push_back((at::randn({48, 48}) / 4).requires_grad_());
    auto step = compile(loss, Options()
                                  .with_lowering(Lowering::exact)
                                  .with_budget_profile(BudgetProfile::off)
                                  .with_memory_share(random() % 2 == 0 ? 0.1 : 0.5));
    const auto found = gradients([&](const List& list) { return step(list); }, xs);
    ASSERT_TRUE(same_bits(found, gradients(loss, xs))) << rows;
    ASSERT_EQ(step.report().eager_calls, 0);
    ++steps;
  }
}

pid_t start(const std::string& directory, const std::string& log, int seconds) {
  const pid_t child = fork();
  if (child != 0) return child;
  setenv("ANTEGRAD_TEST_CACHE", directory.c_str(), 1);
  setenv("XDG_CACHE_HOME", directory.c_str(), 1);
  setenv("ANTEGRAD_TEST_FOR", std::to_string(seconds).c_str(), 1);
  setenv("OMP_NUM_THREADS", "1", 1);
  const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  dup2(out, STDOUT_FILENO);
  dup2(out, STDERR_FILENO);
  execl("/proc/self/exe", "self", "--gtest_brief=1",
        "--gtest_filter=PlanCacheProcesses.TrainsInAProcessOfItsOwn", nullptr);
  _exit(127);
}

// Changes a byte of a random file, cuts it off, removes it, or puts another in its place.
void harm_one(const std::string& directory, std::mt19937& random) {
  std::vector<fs::path> files;
  std::error_code ignored;
  for (const char* kind : {"/antegrad/plans", "/antegrad/kernels"}) {
    for (fs::directory_iterator at(directory + kind, ignored), end; at != end;
         at.increment(ignored)) {
      if (at->is_regular_file(ignored)) files.push_back(at->path());
    }
  }
  if (files.empty()) return;
  const auto& file = files[random() % files.size()];
  switch (random() % 4) {
    case 0: {
      std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
      stream.seekp(static_cast<std::streamoff>(random() % 4000));
      stream.put(static_cast<char>(random()));
      break;
    }
    case 1: fs::resize_file(file, random() % 3000, ignored); break;
    case 2: fs::remove(file, ignored); break;
    default:
      fs::copy_file(files[random() % files.size()], file, fs::copy_options::overwrite_existing,
                    ignored);
  }
}

std::string text_in(const std::string& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(PlanCacheProcesses, TheStorm) {
  const TemporaryFolder folder;
  const std::string log = folder / "log", directory = folder / "caches";
  const int processes = long_tests() ? 16 : 3, seconds = long_tests() ? 120 : 8;
  std::mt19937 random(1);
  const auto end = Clock::now() + std::chrono::seconds(seconds);
  std::vector<pid_t> children;
  for (int i = 0; i < processes; ++i) children.push_back(start(directory, log, seconds));
  while (Clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    harm_one(directory, random);
    if (random() % 500 == 0) {  // killed while it writes, perhaps
      auto& child = children[random() % children.size()];
      kill(child, SIGKILL);
      int status = 0;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      // Its time may have been up.
      EXPECT_TRUE(WIFSIGNALED(status) || (WIFEXITED(status) && WEXITSTATUS(status) == 0))
          << text_in(log);
      child = start(directory, log, seconds / 2);
    }
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << text_in(log);
  }
}

}  // namespace plan_cache_processes_test
}  // namespace antegrad::testing
