// Equal graphs in every process, and constant memory over many calls.

#include <ATen/ATen.h>
#include <common/models.h>
#include <sys/wait.h>
#include <torch/utils.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "support/long_tests.h"
#include "support/parity.h"

namespace antegrad::testing {
namespace stability_test {

using namespace antegrad::examples;

Gpt small_gpt() {
  GptConfig config;
  config.vocabulary = 64;
  config.layers = 2;
  config.width = 32;
  config.heads = 4;
  config.context = 16;
  config.dropout = 0.1;
  return Gpt(config);
}

std::string graph_hash() {
  auto model = small_gpt();
  auto step = antegrad::compile(
      model, [&](const at::Tensor& x, const at::Tensor& y) { return model->loss(x, y); });
  const auto x = at::zeros({2, 16}, at::kLong);
  step.warmup(x, x);
  return step.report().programs.at(0).graph_hash;
}

TEST(Stability, TheGraphHashIsTheSameInEveryRunAndThread) {
  const auto first = graph_hash();
  EXPECT_EQ(first.size(), 32U);
  EXPECT_EQ(graph_hash(), first);
  std::array<std::string, 4> hashes;
  std::vector<std::thread> threads;
  for (auto& hash : hashes) threads.emplace_back([&hash] { hash = graph_hash(); });
  for (auto& thread : threads) thread.join();
  for (const auto& hash : hashes) EXPECT_EQ(hash, first);
}

TEST(Stability, TheGraphHashIsTheSameInEveryProcess) {
  const auto first = graph_hash();
  std::array<char, 33> other{};
  // This program again, running only the test that prints the hash.
  const auto command = "ANTEGRAD_PRINT_HASH=1 '" +
                       std::string(std::filesystem::read_symlink("/proc/self/exe")) +
                       "' --gtest_filter=Stability.PrintsTheHash 2>/dev/null | grep '^hash '";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  ASSERT_EQ(std::fscanf(pipe.get(), "hash %32s", other.data()), 1);
  EXPECT_EQ(first, other.data());
}

TEST(Stability, PrintsTheHash) {
  const auto hash = graph_hash();
  if (std::getenv("ANTEGRAD_PRINT_HASH") != nullptr) std::printf("hash %s\n", hash.c_str());
  EXPECT_FALSE(hash.empty());
}

// Resident pages of this process, in bytes.
int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t size = 0, resident = 0;
  file >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

TEST(Stability, AThousandStepsKeepMemoryFlat) {
  torch::manual_seed(1);
  auto model = small_gpt();
  auto step = antegrad::compile(
      model, [&](const at::Tensor& x, const at::Tensor& y) { return model->loss(x, y); });
  const auto x = at::randint(64, {2, 16}), y = at::randint(64, {2, 16});
  const auto run = [&] {
    clear_gradients(*model);
    step(x, y).backward();
  };
  for (int i = 0; i < 100; ++i) run();
  int64_t live_after = 0;
  const auto resident = resident_bytes();
  {
    MemoryMeter meter;
    for (int i = 0; i < 1000; ++i) run();
    clear_gradients(*model);
    live_after = meter.live_bytes();
  }
  // Gradients live at the meter's start are freed at its end; nothing else remains.
  EXPECT_LE(live_after, 0);
  EXPECT_LT(resident_bytes() - resident, 4 << 20);
  EXPECT_EQ(capture::live_stand_ins(), 0);
  EXPECT_EQ(step.report().programs.size(), 1U);
  EXPECT_EQ(step.report().eager_calls, 0);
}

// Allocated before the first meter of this process. Such a block can only be recognised by its
// address.
void* const kEarlyBlock = c10::GetAllocator(c10::kCPU)->raw_allocate(1000);

TEST(Stability, ABlockFromBeforeTheFirstMeterHasNoSize) {
  MemoryMeter meter;
  c10::GetAllocator(c10::kCPU)->raw_deallocate(kEarlyBlock);
  EXPECT_EQ(meter.live_bytes(), 0);
}

TEST(Stability, ThousandCapturesKeepMemoryFlat) {
  auto model = small_gpt();
  auto step = antegrad::compile(
      model, [&](const at::Tensor& x, const at::Tensor& y) { return model->loss(x, y); });
  const auto x = at::zeros({2, 16}, at::kLong);
  const int captures = long_tests() ? 1000 : 200;
  const auto run = [&] {
    step.reset();
    step.warmup(x, x);
  };
  for (int i = 0; i < 50; ++i) run();
  const auto resident = resident_bytes();
  for (int i = 0; i < captures; ++i) run();
  EXPECT_LT(resident_bytes() - resident, 8 << 20);
  EXPECT_EQ(capture::live_stand_ins(), 0);
}

TEST(Stability, ThreadsMayCallCompileAndRunBackwardAtOnce) {
  torch::manual_seed(2);
  auto model = small_gpt();
  model->eval();
  const auto loss = [&](const at::Tensor& x, const at::Tensor& y) { return model->loss(x, y); };
  auto step = antegrad::compile(model, loss);
  std::vector<at::Tensor> batches, expected;
  for (int64_t n = 1; n <= 4; ++n) {
    batches.push_back(at::randint(64, {n, 16}));
    expected.push_back(loss(batches.back(), batches.back()).detach());
  }
  std::vector<std::thread> threads;
  std::array<bool, 4> right{};
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      bool all = true;
      for (int i = 0; i < 20; ++i) {
        const auto l = step(batches[t], batches[t]);
        all = all && static_cast<bool>(same_bits(l, expected[t]));
        l.backward();
      }
      right[t] = all;
    });
  }
  for (auto& thread : threads) thread.join();
  for (const bool r : right) EXPECT_TRUE(r);
  EXPECT_EQ(step.report().eager_calls, 0);
  EXPECT_EQ(step.report().programs.size(), 4U);
}

TEST(Stability, TwoForwardsBeforeABackward) {
  torch::manual_seed(3);
  const auto w = at::randn({4, 4}).set_requires_grad(true);
  auto step = antegrad::compile([&](const at::Tensor& x) { return x.matmul(w).tanh().sum(); });
  const auto a = at::randn({2, 4}), b = at::randn({2, 4});
  const auto la = step(a), lb = step(b);
  la.backward();
  lb.backward();
  const auto found = w.grad().clone();
  w.mutable_grad() = at::Tensor();
  const auto ea = a.matmul(w).tanh().sum(), eb = b.matmul(w).tanh().sum();
  ea.backward();
  eb.backward();
  EXPECT_TRUE(same_bits(found, w.grad()));
}

}  // namespace stability_test
}  // namespace antegrad::testing
