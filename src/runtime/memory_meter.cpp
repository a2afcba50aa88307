#include <antegrad/error.h>
#include <antegrad/memory.h>
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <array>
#include <atomic>
#include <chrono>
#include <mutex>
#include <unordered_map>

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

// Sizes of live blocks by address. libtorch frees some blocks by address alone (raw_allocate), so a
// block cannot carry a context of ours. Sharded to reduce contention.
class BlockSizes {
 public:
  void put(void* block, int64_t bytes) {
    auto& part = part_of(block);
    const std::lock_guard lock(part.mutex);
    part.bytes[block] = bytes;
  }
  int64_t take(void* block) {
    auto& part = part_of(block);
    const std::lock_guard lock(part.mutex);
    const auto it = part.bytes.find(block);
    if (it == part.bytes.end()) return 0;
    const auto bytes = it->second;
    part.bytes.erase(it);
    return bytes;
  }

 private:
  struct Part {
    std::mutex mutex;
    std::unordered_map<void*, int64_t> bytes;
  };
  Part& part_of(void* block) {
    return parts_[(reinterpret_cast<uintptr_t>(block) >> 6) % parts_.size()];
  }
  std::array<Part, 16> parts_;
};

struct Installed {
  c10::Allocator* inner;
  BlockSizes sizes;
};
Installed* installed = nullptr;  // set once, before the first counted allocation

void free_block(void* block) {
  if (block == nullptr) return;
  counter().add(-installed->sizes.take(block));
  installed->inner->raw_deallocate(block);
}

class CountingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    auto* block = installed->inner->raw_allocate(bytes);
    if (block != nullptr) {
      installed->sizes.put(block, static_cast<int64_t>(bytes));
      counter().add(static_cast<int64_t>(bytes));
    }
    return {block, block, &free_block, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_block; }
  void copy_data(void* dest, const void* src, std::size_t count) const override {
    default_copy_data(dest, src, count);
  }
};

void install_once() {
  static std::once_flag once;
  std::call_once(once, [] {
    installed = new Installed{c10::GetAllocator(c10::kCPU), {}};
    static auto* allocator = new CountingAllocator();
    c10::SetAllocator(c10::kCPU, allocator, /*priority=*/100);
    c10::SetCPUAllocator(allocator, /*priority=*/100);
  });
}

}  // namespace

MemoryMeter::MemoryMeter(bool record_events) {
  install_once();
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
