#pragma once

/// \file
/// What stands in front of libtorch's allocator of the CPU: it serves programs from kept memory
/// (kept_memory.h), and counts what passes (antegrad/memory.h).

#include <cstdint>

namespace antegrad::runtime {

/// Told how many bytes were allocated, or freed if negative, on any thread.
using CountBytes = void (*)(int64_t bytes);

/// Counts from now on, for the life of the process. Not while other threads allocate.
void count_allocations(CountBytes count);

}  // namespace antegrad::runtime
