#pragma once

/// \file
/// Runs beside each other on made-up data, of which the caller's program sees nothing.

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/record_function.h>
#include <c10/core/Device.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <limits>

#include "compile/device_timer.h"
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

/// The shortest time of each, in turns: twice where one of them takes less than three quarters of
/// the other; else until both took `enough` nanoseconds but at least three times and at most 20
/// times; twice as much where the two are so near each other that chance may tell which one is
/// shorter. `turn()`: one turn of both.
template <class Turn>
kernels::RunTimes shortest_in_turns(int64_t enough, const Turn& turn) {
  constexpr int kClear = 2, kLeast = 3, kMost = 20;
  constexpr int64_t kLong = std::numeric_limits<int64_t>::max();
  kernels::RunTimes least{kLong, kLong};
  int64_t spent = 0;
  const auto is_enough = [&](int round) {
    const auto [shorter, longer] = std::minmax(least.kernel, least.library);
    if (round >= kClear && shorter * 4 < longer * 3) return true;
    if (round < kLeast) return false;
    const bool near = std::abs(least.kernel - least.library) * 8 < least.library;
    const int more = near ? 2 : 1;
    return round >= kMost * more || spent >= enough * more;
  };
  for (int round = 0; !is_enough(round); ++round) {
    const kernels::RunTimes now = turn();
    least = {std::min(least.kernel, now.kernel), std::min(least.library, now.library)};
    spent += now.kernel + now.library;
  }
  return least;
}

/// Of a kernel and of the library's on the CPU. `prepare` comes before each turn.
template <class Prepare, class Kernel, class Library>
kernels::RunTimes timed_in_turns(const Prepare& prepare, const Kernel& kernel,
                                 const Library& library) {
  constexpr int64_t kEnough = 20'000'000;
  return shortest_in_turns(kEnough, [&] {
    prepare();
    return kernels::RunTimes{nanoseconds(kernel), nanoseconds(library)};
  });
}

/// The same on a device. Short runs are timed several at once, since one may be shorter than the
/// way to the device and back.
template <class Prepare, class Kernel, class Library>
kernels::RunTimes timed_in_turns(const Prepare& prepare, const Kernel& kernel,
                                 const Library& library, c10::Device device) {
  if (device.is_cpu()) return timed_in_turns(prepare, kernel, library);
  // Its clock is steady, and nobody else takes its time.
  constexpr int64_t kEnough = 500'000, kLongRun = 200'000, kMostRuns = 8;
  DeviceTimer timer(device);
  int runs = 1;
  const auto turn = [&] {
    prepare();
    return kernels::RunTimes{timer.time(runs, kernel), timer.time(runs, library)};
  };
  turn();  // which may load code
  const kernels::RunTimes one = turn();
  const int64_t longest = std::max<int64_t>({one.kernel, one.library, 1});
  runs = static_cast<int>(std::clamp<int64_t>(kLongRun / longest, 1, kMostRuns));
  return shortest_in_turns(kEnough, turn);
}

}  // namespace antegrad::compiler
