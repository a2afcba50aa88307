#pragma once

/// \file
/// Values that some threads read while others replace them.

#include <memory>
#include <utility>

#include "runtime/fork_gate.h"

namespace antegrad::runtime {

/// An immutable value that is replaced as a whole. Uses a mutex instead of
/// std::atomic<std::shared_ptr>, which has a lock bit as well; a fork may find that bit set, and
/// libstdc++ 12 releases it after a load without ordering.
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
