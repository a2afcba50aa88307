// The CPU allocations of libtorch that a MemoryMeter counts.

#include <ATen/ATen.h>
#include <antegrad/error.h>
#include <antegrad/memory.h>
#include <gtest/gtest.h>

#include <thread>

namespace antegrad::testing {
namespace memory_meter_test {

constexpr int64_t kMiB = 1 << 20;

at::Tensor mebibytes(int64_t count) { return at::empty({count * kMiB}, at::kChar); }

TEST(MemoryMeter, CountsWhatIsAliveAndItsPeak) {
  const MemoryMeter meter;
  auto a = mebibytes(1);
  auto b = mebibytes(2);
  a.reset();
  EXPECT_EQ(meter.live_bytes(), 2 * kMiB);
  EXPECT_EQ(meter.peak_bytes(), 3 * kMiB);
}

TEST(MemoryMeter, APeakCanStartAnew) {
  MemoryMeter meter;
  const auto kept = mebibytes(1);
  mebibytes(4);
  meter.reset_peak();
  EXPECT_EQ(meter.peak_bytes(), kMiB);
}

TEST(MemoryMeter, WhatWasAliveBeforeCountsWhenItIsFreed) {
  { const MemoryMeter first; }  // counting in the process starts with the first meter
  auto before = mebibytes(1);
  const MemoryMeter meter;
  EXPECT_EQ(meter.live_bytes(), 0);
  before.reset();
  EXPECT_EQ(meter.live_bytes(), -kMiB);
  EXPECT_EQ(meter.peak_bytes(), 0);
}

TEST(MemoryMeter, CountsTheAllocationsOfAllThreads) {
  const MemoryMeter meter;
  std::vector<at::Tensor> held(4);
  std::vector<std::thread> threads;
  for (auto& tensor : held) threads.emplace_back([&] { tensor = mebibytes(1); });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(meter.live_bytes(), 4 * kMiB);
}

TEST(MemoryMeter, RecordsEventsOnDemand) {
  const MemoryMeter meter(/*record_events=*/true);
  mebibytes(1);
  const auto events = meter.events();
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].live_bytes, kMiB);
  EXPECT_EQ(events[1].live_bytes, 0);
  EXPECT_LE(events[0].milliseconds, events[1].milliseconds);
}

TEST(MemoryMeter, ASecondOneIsAnErrorThatLeavesTheFirst) {
  const MemoryMeter first;
  const auto held = mebibytes(1);
  EXPECT_THROW(MemoryMeter(), Error);
  EXPECT_EQ(first.live_bytes(), kMiB);
}

}  // namespace memory_meter_test
}  // namespace antegrad::testing
