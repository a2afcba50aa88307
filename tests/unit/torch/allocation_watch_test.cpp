#include "torch_compat/allocation_watch.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <thread>

#include "support/silent_memory.h"

namespace antegrad::testing {
namespace allocation_watch_test {

constexpr int64_t kBytes = 1 << 20;

at::Tensor megabyte() { return at::empty({kBytes}, at::kByte); }

TEST(AllocationWatch, CountsWhatLivesAndThePeak) {
  const torch_compat::AllocationWatch watch(at::kCPU);
  auto a = megabyte();
  auto b = megabyte();
  EXPECT_EQ(watch.live_bytes(), 2 * kBytes);
  b.reset();
  EXPECT_EQ(watch.live_bytes(), kBytes);
  EXPECT_EQ(watch.peak_bytes(), 2 * kBytes);
}

TEST(AllocationWatch, WhatWasAliveBeforeAddsNothing) {
  auto before = megabyte();
  const torch_compat::AllocationWatch watch(at::kCPU);
  before.reset();
  EXPECT_LE(watch.live_bytes(), 0);
  EXPECT_EQ(watch.peak_bytes(), 0);
}

TEST(AllocationWatch, OtherThreadsDoNotCount) {
  const torch_compat::AllocationWatch watch(at::kCPU);
  at::Tensor theirs;
  std::thread([&] { theirs = megabyte(); }).join();
  EXPECT_EQ(watch.live_bytes(), 0);
}

TEST(AllocationWatch, WhetherAnAllocatorReports) {
  EXPECT_TRUE(torch_compat::reports_allocations(at::kCPU));
  const SilentMemory silent;
  EXPECT_FALSE(torch_compat::reports_allocations(at::kCPU));
}

}  // namespace allocation_watch_test
}  // namespace antegrad::testing
