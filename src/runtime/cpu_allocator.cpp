#include "runtime/cpu_allocator.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include <array>
#include <mutex>
#include <unordered_map>

#include "runtime/kept_memory.h"

namespace antegrad::runtime {
namespace {

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

struct Counting {
  CountBytes count;
  BlockSizes sizes;
};

c10::Allocator* inner = nullptr;  // libtorch's; set before this one is installed
Counting* counting = nullptr;     // set before the first counted allocation

void free_block(void* block) {
  if (block == nullptr) return;
  if (counting != nullptr) counting->count(-counting->sizes.take(block));
  if (!is_kept(block)) return inner->raw_deallocate(block);
  c10::profiledCPUMemoryReporter().Delete(block);
  free_kept(block);
}

// Kept memory that is free goes before an allocation fails.
template <class Allocate>
auto from_inner(const Allocate& allocate) {
  try {
    return allocate();
  } catch (const c10::Error&) {
    if (!release_kept()) throw;
  }
  return allocate();
}

class Allocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    void* block = allocate_kept(bytes);
    if (block != nullptr) {
      c10::profiledCPUMemoryReporter().New(block, bytes);
    } else if (counting == nullptr) {
      return from_inner([&] { return inner->allocate(bytes); });
    } else {
      block = from_inner([&] { return inner->raw_allocate(bytes); });
    }
    if (counting != nullptr && block != nullptr) {
      counting->sizes.put(block, static_cast<int64_t>(bytes));
      counting->count(static_cast<int64_t>(bytes));
    }
    return {block, block, &free_block, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_block; }
  void copy_data(void* dest, const void* src, std::size_t count) const override {
    default_copy_data(dest, src, count);
  }
};

// When the library is loaded: libtorch's list of allocators has no lock.
[[maybe_unused]] const bool installed = [] {
  constexpr uint8_t kPriority = 100;
  inner = c10::GetAllocator(c10::kCPU);
  static auto* const allocator = new Allocator();
  c10::SetAllocator(c10::kCPU, allocator, kPriority);
  c10::SetCPUAllocator(allocator, kPriority);
  return true;
}();

}  // namespace

void count_allocations(CountBytes count) {
  static std::once_flag once;
  std::call_once(once, [count] { counting = new Counting{count, {}}; });
}

}  // namespace antegrad::runtime
