#pragma once

/// \file
/// Allocators that take the place of libtorch's allocator of the CPU.

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <cstdint>
#include <cstdlib>

namespace antegrad::testing {

/// Allocates and frees, and reports nothing, as CUDA's backend cudaMallocAsync does.
class PlainAllocator : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    constexpr size_t kAlignment = 64;
    void* block = std::aligned_alloc(kAlignment, (bytes / kAlignment + 1) * kAlignment);
    return {block, block, &std::free, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &std::free; }
  void copy_data(void* dest, const void* src, std::size_t count) const override {
    default_copy_data(dest, src, count);
  }
};

/// The allocator of the CPU is another one while it lives.
class AllocatorScope {
 public:
  explicit AllocatorScope(c10::Allocator& allocator) { install(&allocator); }
  ~AllocatorScope() { install(before_); }
  AllocatorScope(const AllocatorScope&) = delete;
  AllocatorScope& operator=(const AllocatorScope&) = delete;

 private:
  static void install(c10::Allocator* allocator) {
    constexpr uint8_t kPriority = 100;  // that of MemoryMeter
    c10::SetAllocator(c10::kCPU, allocator, kPriority);
    c10::SetCPUAllocator(allocator, kPriority);
  }

  c10::Allocator* before_ = c10::GetAllocator(c10::kCPU);
};

}  // namespace antegrad::testing
