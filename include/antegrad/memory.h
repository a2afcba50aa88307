#pragma once

/// \file
/// Memory of the CPU: measures the bytes that pass through libtorch's allocator, and tells what
/// programs keep between calls.

#include <cstdint>
#include <vector>

namespace antegrad {

/// A moment at which the number of live bytes changed. A value.
struct MemoryEvent {
  double milliseconds = 0;  ///< since construction of the meter
  int64_t live_bytes = 0;   ///< allocated since then and not yet freed
};

/// Counts allocations through the CPU's c10 allocator, on all threads, during its lifetime. Bytes
/// that were alive before count only when they are freed, as negative bytes. So peak_bytes() is
/// the maximum above the level at the start.
///
/// Only one meter may exist at a time; a second one throws Error. From the first meter on, each
/// block is counted by an allocator that this library puts in front of libtorch's own when it is
/// loaded. Members may be called on any thread while others allocate, but not during destruction of
/// the meter. The first meter of a process must not be made while other threads allocate.
class MemoryMeter {
 public:
  /// `record_events` keeps every change, for a timeline.
  explicit MemoryMeter(bool record_events = false);
  ~MemoryMeter();
  MemoryMeter(const MemoryMeter&) = delete;
  MemoryMeter& operator=(const MemoryMeter&) = delete;

  int64_t live_bytes() const;
  int64_t peak_bytes() const;
  /// Starts a new peak from the current level.
  void reset_peak();
  std::vector<MemoryEvent> events() const;
};

/// Memory that programs keep between calls (Options::kept_memory).
struct MemoryKept {
  int64_t used_bytes = 0;  ///< of tensors that live in it: results, gradients, saved values
  int64_t kept_bytes = 0;  ///< in pages of the system, with those that are free for later calls
};

/// Of this process. Thread-safe.
MemoryKept kept_memory();

/// Gives back to the system what is free of it, as torch.cuda.empty_cache() does of a GPU's.
/// Thread-safe.
void release_kept_memory();

}  // namespace antegrad
