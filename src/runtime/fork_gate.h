#pragma once

/// \file
/// A fork() of the process waits until no other thread is inside antegrad's locks: a child has one
/// thread, and would wait for ever for a lock that another held.
///
/// A thread is inside while a ForkGate lives: during captures and while it holds a ForkSafeLock. A
/// fork from inside (the callable forks) waits for nobody; its child may not capture again if
/// another thread was capturing at that moment.

#include <mutex>

namespace antegrad::runtime {

/// Keeps forks out. May be nested; a thread that waits for a fork to end waits in the outermost
/// one.
class ForkGate {
 public:
  ForkGate();
  ~ForkGate();
  ForkGate(const ForkGate&) = delete;
  ForkGate& operator=(const ForkGate&) = delete;
};

/// std::lock_guard that a fork waits for.
class ForkSafeLock {
 public:
  explicit ForkSafeLock(std::mutex& mutex) : lock_(mutex) {}

 private:
  ForkGate gate_;
  std::lock_guard<std::mutex> lock_;
};

}  // namespace antegrad::runtime
