#pragma once

/// \file
/// Watches this thread's allocations, on any device that libtorch's allocators report.
///
/// Unlike MemoryMeter it puts nothing in front of an allocator and observes only its own thread,
/// so it may be used at any time. A profiler of this thread sees no memory events meanwhile.

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>

#include "torch_compat/scope.h"

namespace c10 {
class DebugInfoGuard;
}

namespace antegrad::torch_compat {

/// Whether a watch sees what the device's allocator hands out. Those of PyTorch do, except the
/// backend cudaMallocAsync and CUDA without caching. Allocates a few bytes there.
bool reports_allocations(c10::Device device);

class AllocationWatch : Scope {
 public:
  explicit AllocationWatch(c10::DeviceType device);
  ~AllocationWatch();

  /// Bytes allocated since the start and not freed, and their maximum. Freeing memory that was
  /// allocated before counts as negative; on the CPU only if it was allocated under a watch.
  int64_t live_bytes() const;
  int64_t peak_bytes() const;

 private:
  class Counter;
  std::shared_ptr<Counter> counter_;
  std::unique_ptr<c10::DebugInfoGuard> guard_;
};

}  // namespace antegrad::torch_compat
