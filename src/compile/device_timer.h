#pragma once

/// \file
/// Time that runs take on a device with streams, by its own clock.

#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <cstdint>
#include <functional>

namespace antegrad::compiler {

/// On the stream of the device that is current on this thread. Throws what libtorch does.
class DeviceTimer {
 public:
  explicit DeviceTimer(c10::Device device);

  /// Nanoseconds of one of `runs` runs, one behind the other. What was started before has ended.
  int64_t time(int runs, const std::function<void()>& run);

 private:
  const c10::Stream stream_;
  c10::Event start_, end_;
};

}  // namespace antegrad::compiler
