#pragma once

/// \file
/// What this thread allocates on a device, on any device that libtorch's allocators report.
///
/// Unlike MemoryMeter it puts nothing in front of an allocator and sees its own thread alone, so it may be used at any
/// time; a profiler of this thread sees no memory meanwhile.

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>

namespace c10 {
class DebugInfoGuard;
}

namespace antegrad::torch_compat {

class AllocationWatch {
 public:
  explicit AllocationWatch(c10::DeviceType device);
  ~AllocationWatch();
  AllocationWatch(const AllocationWatch&) = delete;
  AllocationWatch& operator=(const AllocationWatch&) = delete;

  /// Bytes that were allocated since the start and not freed, and the most that were at a time. What was alive before
  /// counts as negative when it is freed; on the CPU it does not count, unless it was watched when it was allocated.
  int64_t live_bytes() const;
  int64_t peak_bytes() const;

 private:
  class Counter;
  std::shared_ptr<Counter> counter_;
  std::unique_ptr<c10::DebugInfoGuard> guard_;
};

}  // namespace antegrad::torch_compat
