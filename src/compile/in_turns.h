#pragma once

/// \file
/// Runs beside each other on made-up data, of which the caller's program sees nothing.

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/record_function.h>
#include <c10/core/Device.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/cuda.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <limits>

#include "kernels/proofs.h"

namespace antegrad::compiler {

/// Kernels and nodes run as in programs. Who watches operators, as profilers and eager checkpoints
/// do, does not see them: they are none of the caller's.
struct BelowAutograd {
  at::DisableRecordFunctionGuard unseen;
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  c10::impl::ExcludeDispatchKeyGuard no_autocast{c10::autocast_dispatch_keyset};
};

/// Of this thread, so that a process which takes its core in between does not count.
template <class Run>
int64_t nanoseconds(const Run& run) {
  const auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
  };
  const int64_t start = now();
  run();
  return now() - start;
}

/// Of a device, to the end of what runs there: of several runs, since one may be shorter than the
/// way to the device and back.
template <class Run>
int64_t nanoseconds_on(c10::Device device, const Run& run) {
  if (device.is_cpu()) return nanoseconds(run);
  constexpr int kRuns = 8;
  using Clock = std::chrono::steady_clock;
  torch::cuda::synchronize(device.index());
  const auto start = Clock::now();
  for (int i = 0; i < kRuns; ++i) run();
  torch::cuda::synchronize(device.index());
  return (Clock::now() - start) / std::chrono::nanoseconds(kRuns);
}

/// The shortest time of each, in turns: twice where one of them takes less than three quarters of
/// the other; else for 20 ms but at least three times and at most 20 times; twice as much where the
/// two are so near each other that chance may tell which one is shorter. `prepare` comes before
/// each turn.
template <class Prepare, class Kernel, class Library>
kernels::RunTimes timed_in_turns(const Prepare& prepare, const Kernel& kernel,
                                 const Library& library, c10::Device device = at::kCPU) {
  constexpr int kClear = 2, kLeast = 3, kMost = 20;
  constexpr int64_t kEnough = 20'000'000, kLong = std::numeric_limits<int64_t>::max();
  kernels::RunTimes least{kLong, kLong};
  int64_t spent = 0;
  const auto enough = [&](int round) {
    const auto [shorter, longer] = std::minmax(least.kernel, least.library);
    if (round >= kClear && shorter * 4 < longer * 3) return true;
    if (round < kLeast) return false;
    const bool near = std::abs(least.kernel - least.library) * 8 < least.library;
    const int more = near ? 2 : 1;
    return round >= kMost * more || spent >= kEnough * more;
  };
  for (int round = 0; !enough(round); ++round) {
    prepare();
    const kernels::RunTimes now{nanoseconds_on(device, kernel), nanoseconds_on(device, library)};
    least = {std::min(least.kernel, now.kernel), std::min(least.library, now.library)};
    spent += now.kernel + now.library;
  }
  return least;
}

}  // namespace antegrad::compiler
