#include <antegrad/error.h>
#include <antegrad/memory.h>
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>

namespace antegrad {
namespace {

using Clock = std::chrono::steady_clock;

// What a meter counts. One in the process; the allocator adds to it while `on`.
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

// Remembers what the inner allocator gave, so that its own deleter frees it.
struct Block {
  c10::DataPtr inner;
  int64_t bytes;
};

void free_block(void* context) {
  const std::unique_ptr<Block> block(static_cast<Block*>(context));
  counter().add(-block->bytes);
}

class CountingAllocator final : public c10::Allocator {
 public:
  explicit CountingAllocator(c10::Allocator* inner) : inner_(inner) {}

  c10::DataPtr allocate(size_t bytes) override {
    auto inner = inner_->allocate(bytes);
    auto* data = inner.get();
    const auto device = inner.device();
    auto block = std::make_unique<Block>(Block{std::move(inner), static_cast<int64_t>(bytes)});
    counter().add(block->bytes);
    return {data, block.release(), &free_block, device};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* dest, const void* src, std::size_t count) const override {
    default_copy_data(dest, src, count);
  }

 private:
  c10::Allocator* inner_;
};

void install_once() {
  static std::once_flag once;
  std::call_once(once, [] {
    static auto* allocator = new CountingAllocator(c10::GetAllocator(c10::kCPU));
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
