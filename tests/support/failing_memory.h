#pragma once

/// \file
/// An allocator that runs out of memory when it is told to.

#include <c10/util/Exception.h>

#include <atomic>
#include <cstdint>

#include "support/test_allocator.h"

namespace antegrad::testing {

/// libtorch's allocator of the CPU while it lives.
class FailingMemory {
 public:
  FailingMemory() = default;
  ~FailingMemory() { fail_after(-1); }
  FailingMemory(const FailingMemory&) = delete;
  FailingMemory& operator=(const FailingMemory&) = delete;

  /// The next `count` requests are met, the one behind fails, and all later ones are met; -1: all.
  static void fail_after(int64_t count) { failing().left = count; }
  /// Whether a request has failed since it was asked the last time.
  static bool has_failed() { return failing().has_failed.exchange(false); }

 private:
  struct Allocator final : PlainAllocator {
    c10::DataPtr allocate(size_t bytes) override {
      if (left >= 0 && left-- == 0) {
        has_failed = true;
        TORCH_CHECK(false, "no memory, as a test asked");
      }
      return PlainAllocator::allocate(bytes);
    }
    std::atomic<int64_t> left = -1;
    std::atomic<bool> has_failed = false;
  };

  static Allocator& failing() {
    static Allocator allocator;
    return allocator;
  }
  AllocatorScope scope_{failing()};
};

}  // namespace antegrad::testing
