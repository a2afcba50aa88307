#include "torch_compat/allocation_watch.h"

#include <ATen/ops/empty.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/csrc/profiler/orchestration/observer.h>

#include <atomic>

namespace antegrad::torch_compat {

namespace profiler = torch::profiler::impl;

// libtorch takes whatever has this place for a state of its profiler. This one profiles nothing.
// Threads of a kernel may report as well: they inherit the debug info of the thread that started
// them.
class AllocationWatch::Counter : public profiler::ProfilerStateBase {
 public:
  explicit Counter(c10::DeviceType device)
      : ProfilerStateBase(profiler::ProfilerConfig(profiler::ProfilerState::Disabled)),
        device_(device) {}

  void reportMemoryUsage(void* /*ptr*/, int64_t bytes, size_t /*allocated*/, size_t /*reserved*/,
                         c10::Device device) override {
    if (device.type() != device_) return;
    const auto live = live_ += bytes;
    auto peak = peak_.load();
    while (live > peak && !peak_.compare_exchange_weak(peak, live)) {
    }
  }
  bool memoryProfilingEnabled() const override { return true; }
  profiler::ActiveProfilerType profilerType() override {
    return profiler::ActiveProfilerType::NONE;
  }

  int64_t live() const { return live_; }
  int64_t peak() const { return peak_; }

 private:
  const c10::DeviceType device_;
  std::atomic<int64_t> live_{0}, peak_{0};
};

AllocationWatch::AllocationWatch(c10::DeviceType device)
    : counter_(std::make_shared<Counter>(device)),
      guard_(std::make_unique<c10::DebugInfoGuard>(c10::DebugInfoKind::PROFILER_STATE, counter_)) {}

AllocationWatch::~AllocationWatch() = default;

bool reports_allocations(c10::Device device) {
  const AllocationWatch watch(device.type());
  const auto probe = at::empty({1}, at::dtype(at::kByte).device(device));
  return watch.peak_bytes() > 0;
}

int64_t AllocationWatch::live_bytes() const { return counter_->live(); }
int64_t AllocationWatch::peak_bytes() const { return counter_->peak(); }

}  // namespace antegrad::torch_compat
