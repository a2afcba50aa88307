#pragma once

/// \file
/// An allocator that reports nothing.

#include "support/test_allocator.h"

namespace antegrad::testing {

/// libtorch's allocator of the CPU while it lives.
class SilentMemory {
 private:
  static PlainAllocator& silent() {
    static PlainAllocator allocator;
    return allocator;
  }
  AllocatorScope scope_{silent()};
};

}  // namespace antegrad::testing
