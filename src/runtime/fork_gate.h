#pragma once

/// \file
/// Makes fork() wait until no other thread is inside antegrad's locks: the child has one thread,
/// and would wait forever for a lock held by another.
///
/// A thread is inside while it has a ForkGate: during captures and while it holds a ForkSafeLock. A
/// fork from inside (the callable forks) does not wait. Its child cannot capture again if another
/// thread was capturing at that moment.

#include <mutex>

#include "torch_compat/scope.h"

namespace antegrad::runtime {

/// Delays forks. May be nested; a thread that waits for the end of a fork waits in the outermost
/// one.
class ForkGate : torch_compat::Scope {
 public:
  ForkGate();
  ~ForkGate();
};

/// A std::lock_guard that delays forks.
class ForkSafeLock {
 public:
  explicit ForkSafeLock(std::mutex& mutex) : lock_(mutex) {}

 private:
  ForkGate gate_;
  std::lock_guard<std::mutex> lock_;
};

}  // namespace antegrad::runtime
