#pragma once

/// \file
/// Values that threads read while others exchange them.

#include <memory>
#include <utility>

#include "runtime/fork_gate.h"

namespace antegrad::runtime {

/// An immutable value that is exchanged as a whole. A mutex and not std::atomic<std::shared_ptr>,
/// which has a lock bit as well, but one that a fork may find set and that libstdc++ 12 releases
/// after a load without ordering it.
template <class T>
class Published {
 public:
  std::shared_ptr<const T> load() const {
    const ForkSafeLock lock(mutex_);
    return value_;
  }
  void store(std::shared_ptr<const T> value) {
    const ForkSafeLock lock(mutex_);
    value_.swap(value);
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const T> value_ = std::make_shared<const T>();
};

}  // namespace antegrad::runtime
