#pragma once

/// \file
/// Values that are made when their key is first asked for, such as programs by form.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/fork_gate.h"

namespace antegrad::runtime {

/// Thread-safe. Few keys: they are compared one by one.
template <class Key, class Value>
class MadeOnDemand {
 public:
  using Held = std::shared_ptr<const Value>;

  /// Keeps the newest `most`.
  explicit MadeOnDemand(size_t most = std::numeric_limits<size_t>::max()) : most_(most) {}

  /// Null if there is none.
  Held find(const Key& key) const {
    const ForkSafeLock lock(mutex_);
    return known(key);
  }

  /// The value, made now if it does not exist. Throws what `make` throws, which runs without the
  /// lock: it may run the callable, which may wait for other threads.
  template <class Make>
  Held get(const Key& key, const Make& make) {
    if (auto found = find(key)) return found;
    return put(key, make());
  }

  /// Adds a value, unless another thread was faster; returns the one that is there.
  Held put(const Key& key, Held value) {
    const ForkSafeLock lock(mutex_);
    if (auto found = known(key)) return found;
    if (values_.size() == most_) values_.erase(values_.begin());
    return values_.emplace_back(key, std::move(value)).second;
  }

  size_t count() const {
    const ForkSafeLock lock(mutex_);
    return values_.size();
  }

  template <class Bytes>
  int64_t sum(const Bytes& bytes_of) const {
    const ForkSafeLock lock(mutex_);
    int64_t sum = 0;
    for (const auto& [key, value] : values_) sum += bytes_of(*value);
    return sum;
  }

 private:
  Held known(const Key& key) const {
    for (const auto& [present, value] : values_) {
      if (present == key) return value;
    }
    return nullptr;
  }

  const size_t most_;
  mutable std::mutex mutex_;  // guards what follows
  std::vector<std::pair<Key, Held>> values_;
};

}  // namespace antegrad::runtime
