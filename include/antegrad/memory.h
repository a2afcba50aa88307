#pragma once

/// \file
/// Measures memory: the bytes that pass through libtorch's CPU allocator.

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
/// Only one meter may exist at a time; a second one throws Error. The first meter puts a counting
/// allocator in front of libtorch's own. It stays for the life of the process and forwards
/// everything. Members may be called on any thread while others allocate, but not during
/// destruction of the meter. The first meter of a process must not be made while other threads
/// allocate: libtorch's list of allocators has no lock.
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

}  // namespace antegrad
