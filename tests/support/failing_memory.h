#pragma once

/// \file
/// An allocator that runs out of memory when it is told to.

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>

namespace antegrad::testing {

/// libtorch's allocator of the CPU while it lives.
class FailingMemory {
 public:
  FailingMemory() { install(&failing()); }
  ~FailingMemory() {
    fail_after(-1);
    install(before_);
  }
  FailingMemory(const FailingMemory&) = delete;
  FailingMemory& operator=(const FailingMemory&) = delete;

  /// The next `count` requests are met, the one behind fails, and all later ones are met; -1: all.
  static void fail_after(int64_t count) { failing().left = count; }
  /// Whether a request has failed since then.
  static bool has_failed() { return failing().has_failed.exchange(false); }

 private:
  struct Allocator final : c10::Allocator {
    c10::DataPtr allocate(size_t bytes) override {
      if (left >= 0 && left-- == 0) {
        has_failed = true;
        TORCH_CHECK(false, "no memory, as a test asked");
      }
      constexpr size_t kAlignment = 64;
      void* block = std::aligned_alloc(kAlignment, (bytes / kAlignment + 1) * kAlignment);
      return {block, block, &std::free, c10::Device(c10::kCPU)};
    }
    c10::DeleterFnPtr raw_deleter() const override { return &std::free; }
    void copy_data(void* dest, const void* src, std::size_t count) const override {
      default_copy_data(dest, src, count);
    }
    std::atomic<int64_t> left = -1;
    std::atomic<bool> has_failed = false;
  };

  static Allocator& failing() {
    static Allocator allocator;
    return allocator;
  }
  static void install(c10::Allocator* allocator) {
    constexpr uint8_t kPriority = 100;  // that of MemoryMeter
    c10::SetAllocator(c10::kCPU, allocator, kPriority);
    c10::SetCPUAllocator(allocator, kPriority);
  }

  c10::Allocator* before_ = c10::GetAllocator(c10::kCPU);
};

}  // namespace antegrad::testing
