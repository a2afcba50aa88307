#include <antegrad/error.h>
#include <antegrad/memory.h>

#include <atomic>
#include <chrono>
#include <mutex>

#include "runtime/cpu_allocator.h"

namespace antegrad {
namespace {

using Clock = std::chrono::steady_clock;

// The counts of a meter. One per process; the allocator updates it while `on`.
struct Counter {
  std::atomic<bool> on{false};
  std::mutex mutex;
  int64_t live = 0;
  int64_t peak = 0;
  bool record = false;
  Clock::time_point start;
  std::vector<MemoryEvent> events;

  void add(int64_t bytes) {
    if (!on.load(std::memory_order_acquire)) return;
    const std::lock_guard lock(mutex);
    live += bytes;
    peak = std::max(peak, live);
    if (!record) return;
    const std::chrono::duration<double, std::milli> since = Clock::now() - start;
    events.push_back({since.count(), live});
  }
};

Counter& counter() {
  static auto* instance = new Counter();
  return *instance;
}

}  // namespace

MemoryMeter::MemoryMeter(bool record_events) {
  runtime::count_allocations([](int64_t bytes) { counter().add(bytes); });
  auto& c = counter();
  const std::lock_guard lock(c.mutex);
  if (c.on.load()) {
    throw Error(ErrorText{"one MemoryMeter at a time", "a second one", "end the first one before"});
  }
  c.live = c.peak = 0;
  c.record = record_events;
  c.events.clear();
  c.start = Clock::now();
  c.on.store(true, std::memory_order_release);
}

MemoryMeter::~MemoryMeter() { counter().on.store(false, std::memory_order_release); }

int64_t MemoryMeter::live_bytes() const {
  const std::lock_guard lock(counter().mutex);
  return counter().live;
}
int64_t MemoryMeter::peak_bytes() const {
  const std::lock_guard lock(counter().mutex);
  return counter().peak;
}
void MemoryMeter::reset_peak() {
  const std::lock_guard lock(counter().mutex);
  counter().peak = counter().live;
}
std::vector<MemoryEvent> MemoryMeter::events() const {
  const std::lock_guard lock(counter().mutex);
  return counter().events;
}

}  // namespace antegrad
