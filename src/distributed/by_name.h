#pragma once

/// \file
/// Objects that programs know by name, as long as somebody else holds them.

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

namespace antegrad::distributed {

/// Thread-safe.
template <class T>
class ByName {
 public:
  /// Never destroyed: programs may run while static objects are.
  static ByName& of_process() {
    static auto* const all = new ByName();
    return *all;
  }

  /// Null if there is none, or no longer.
  std::shared_ptr<T> find(const std::string& name) {
    const std::lock_guard lock(mutex_);
    const auto known = by_name_.find(name);
    return known == by_name_.end() ? nullptr : known->second.lock();
  }

  /// One of the same name is forgotten.
  void remember(const std::string& name, const std::shared_ptr<T>& object) {
    const std::lock_guard lock(mutex_);
    by_name_[name] = object;
  }

  void forget(const std::string& name) {
    const std::lock_guard lock(mutex_);
    by_name_.erase(name);
  }

 private:
  std::mutex mutex_;
  std::unordered_map<std::string, std::weak_ptr<T>> by_name_;
};

}  // namespace antegrad::distributed
