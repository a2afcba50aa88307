#include "compile/device_timer.h"

#include <c10/core/impl/VirtualGuardImpl.h>

namespace antegrad::compiler {
namespace {

// Others measure no time.
constexpr auto kTimed = c10::EventFlag::BACKEND_DEFAULT;

}  // namespace

DeviceTimer::DeviceTimer(c10::Device device)
    : stream_(c10::impl::VirtualGuardImpl(device.type()).getStream(device)),
      start_(device.type(), kTimed),
      end_(device.type(), kTimed) {}

int64_t DeviceTimer::time(int runs, const std::function<void()>& run) {
  constexpr double kNanoseconds = 1e6;  // in the milliseconds of events
  // Else the host would be ahead, and what it takes to start a kernel would not show.
  stream_.synchronize();
  start_.record(stream_);
  for (int i = 0; i < runs; ++i) run();
  end_.record(stream_);
  end_.synchronize();
  return static_cast<int64_t>(start_.elapsedTime(end_) * kNanoseconds / runs);
}

}  // namespace antegrad::compiler
