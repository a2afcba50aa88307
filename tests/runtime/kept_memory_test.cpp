// Memory that programs keep between calls (Options::kept_memory).

#include <ATen/ATen.h>
#include <antegrad/memory.h>
#include <sys/resource.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/utils.h>

#include <thread>

#include "at_once.h"
#include "support/parity.h"
#include "torch_compat/allocation_watch.h"

namespace antegrad::testing {
namespace kept_memory_test {

using List = std::vector<at::Tensor>;

constexpr int64_t kMiB = 1 << 20;

at::Tensor mebibyte() { return at::randn({512, 512}); }

// Saves twenty tensors of 1 MiB.
at::Tensor chain(const at::Tensor& x) {
  auto y = x;
  for (int i = 0; i < 20; ++i) y = y.sin();
  return y;
}

Options with(KeptMemory policy) {
  return Options().with_audit(Audit::off).with_kept_memory(policy);
}

class KeptBetweenCalls : public ::testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__)
    GTEST_SKIP() << "nothing is kept under AddressSanitizer";
#endif
    release_kept_memory();
    before_ = kept_memory();
  }

  // Beyond what other tests left.
  int64_t used() const { return kept_memory().used_bytes - before_.used_bytes; }
  int64_t kept() const { return kept_memory().kept_bytes - before_.kept_bytes; }

 private:
  MemoryKept before_;
};

template <class Step>
void train(Step& step, const at::Tensor& x) {
  x.mutable_grad().reset();
  step(x).sum().backward();
}

long page_faults() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_minflt;
}

TEST_F(KeptBetweenCalls, AWarmStepTakesNoNewPages) {
  const auto x = mebibyte().set_requires_grad(true);
  auto step = compile(chain, with(KeptMemory::keep));
  const auto faults = [&] {
    const auto before = page_faults();
    train(step, x);
    return page_faults() - before;
  };
  for (int i = 0; i < 3; ++i) faults();
  const auto warm = faults();
  // Results of eager code between forward and backward are libtorch's: two tensors, of 1 MiB.
  EXPECT_LE(warm, 2 * kMiB / 4096 + 64);
  // Without what is kept, it takes them anew.
  release_kept_memory();
  const auto released = kept();
  faults();
  EXPECT_GE(kept() - released, 16 * kMiB);
  EXPECT_EQ(step.report().eager_calls, 0);
}

TEST_F(KeptBetweenCalls, WhatIsFreeIsGivenBackAndWhatLivesStays) {
  const auto x = mebibyte().set_requires_grad(true);
  auto step = compile(chain, with(KeptMemory::keep));
  const auto y = step(x);
  EXPECT_GE(used(), 20 * kMiB);
  const auto gradient = torch::autograd::grad({y.sum()}, {x})[0];
  EXPECT_GE(kept(), 20 * kMiB);
  EXPECT_LE(used(), 2 * kMiB);
  const auto expected = chain(x);
  const auto copies = List{y.detach().clone(), gradient.clone()};
  release_kept_memory();
  EXPECT_TRUE(same_bits(List{y.detach(), gradient}, copies));
  EXPECT_TRUE(same_bits(List{y.detach(), gradient},
                        List{expected.detach(), torch::autograd::grad({expected.sum()}, {x})[0]}));
  EXPECT_LE(kept(), used() + 4 * kMiB);
}

TEST_F(KeptBetweenCalls, TrimKeepsNothingThatIsFree) {
  const auto x = mebibyte().set_requires_grad(true);
  auto step = compile(chain, with(KeptMemory::trim));
  for (int i = 0; i < 3; ++i) train(step, x);
  EXPECT_LE(kept(), 4 * kMiB);
  x.mutable_grad().reset();
  release_kept_memory();
  EXPECT_EQ(used(), 0);
}

TEST_F(KeptBetweenCalls, FreeLeavesAllToLibtorch) {
  const auto x = mebibyte().set_requires_grad(true);
  auto step = compile(chain, with(KeptMemory::free));
  const auto y = step(x);
  EXPECT_EQ(used(), 0);
  y.sum().backward();
  EXPECT_EQ(used(), 0);
}

TEST_F(KeptBetweenCalls, MetersCountItLikeOther) {
  const auto x = mebibyte().set_requires_grad(true);
  int64_t peaks[2][2];
  for (const auto policy : {KeptMemory::keep, KeptMemory::free}) {
    auto step = compile(chain, with(policy));
    train(step, x);
    auto& peak = peaks[policy == KeptMemory::keep ? 0 : 1];
    x.mutable_grad().reset();
    {
      const MemoryMeter meter;
      train(step, x);
      x.mutable_grad().reset();
      peak[0] = meter.peak_bytes();
      EXPECT_EQ(meter.live_bytes(), 0);
    }
    const torch_compat::AllocationWatch watch(at::kCPU);
    train(step, x);
    x.mutable_grad().reset();
    peak[1] = watch.peak_bytes();
    EXPECT_EQ(watch.live_bytes(), 0);
  }
  EXPECT_GE(peaks[0][0], 20 * kMiB);
  EXPECT_EQ(peaks[0][0], peaks[1][0]);
  EXPECT_EQ(peaks[0][1], peaks[1][1]);
}

TEST_F(KeptBetweenCalls, AThousandStepsKeepAsMuchAsTen) {
  const auto x = at::randn({128, 256}).set_requires_grad(true);
  auto step = compile(chain, with(KeptMemory::keep));
  for (int i = 0; i < 10; ++i) train(step, x);
  const auto after_ten = kept();
  for (int i = 10; i < 1000; ++i) train(step, x);
  EXPECT_EQ(kept(), after_ten);
  EXPECT_GE(after_ten, 20 * 128 * 256 * 4);
}

TEST_F(KeptBetweenCalls, BlocksMayBeFreedByOtherThreads) {
  auto step = compile(chain, with(KeptMemory::keep));
  auto y = step(mebibyte());
  EXPECT_EQ(used(), kMiB);
  std::thread([&] { y.reset(); }).join();
  EXPECT_EQ(used(), 0);
}

TEST_F(KeptBetweenCalls, SixteenThreadsCallOneProgram) {
  constexpr int kThreads = 16;
  auto step = compile(chain, with(KeptMemory::keep));
  std::vector<at::Tensor> xs;
  for (int i = 0; i < kThreads; ++i) xs.push_back(at::randn({256, 256}).set_requires_grad(true));
  step.warmup(xs[0]);
  at_once(kThreads, [&](int i) {
    for (int call = 0; call < 20; ++call) {
      const auto y = step(xs[i]);
      const auto gradient = torch::autograd::grad({y.sum()}, {xs[i]})[0];
      if (call % 5 == 0) release_kept_memory();
      const auto expected = chain(xs[i]);
      ASSERT_TRUE(
          same_bits(List{y.detach(), gradient},
                    List{expected.detach(), torch::autograd::grad({expected.sum()}, {xs[i]})[0]}));
    }
  });
  EXPECT_EQ(used(), 0);
  EXPECT_EQ(step.report().eager_calls, 0);
}

}  // namespace kept_memory_test
}  // namespace antegrad::testing
