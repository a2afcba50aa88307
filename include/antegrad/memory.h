#pragma once

/// \file
/// Measured memory: bytes that pass through libtorch's CPU allocator.

#include <cstdint>
#include <vector>

namespace antegrad {

/// One moment at which the number of live bytes changed. A value.
struct MemoryEvent {
  double milliseconds = 0;  ///< since the meter was made
  int64_t live_bytes = 0;   ///< allocated since then and not yet freed
};

/// Counts what is allocated through the CPU's c10 allocator, on all threads, from its construction to
/// its destruction. Bytes that were alive before count only when they are freed, as negative ones
/// would: peak_bytes() is the most that was alive above the level at the start. One meter at a time;
/// a second one throws Error. The first meter puts a counting allocator in front of libtorch's own,
/// which stays for the life of the process and passes everything on. Members may be called on any
/// thread while others allocate; not while the meter is destroyed. The first meter of a process must not
/// be made while other threads allocate: libtorch's list of allocators has no lock.
class MemoryMeter {
 public:
  /// `record_events` keeps every change for a timeline.
  explicit MemoryMeter(bool record_events = false);
  ~MemoryMeter();
  MemoryMeter(const MemoryMeter&) = delete;
  MemoryMeter& operator=(const MemoryMeter&) = delete;

  int64_t live_bytes() const;
  int64_t peak_bytes() const;
  /// Starts a new peak from the present level.
  void reset_peak();
  std::vector<MemoryEvent> events() const;
};

}  // namespace antegrad
