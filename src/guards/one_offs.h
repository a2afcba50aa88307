#pragma once

/// \file
/// Notices when programs are made for nothing: each call needs another one.

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>

namespace antegrad::guards {

/// The number of calls that ran a program.
using CallCount = std::shared_ptr<std::atomic<int64_t>>;

/// Watches the programs that were made for another reason than sizes: a value that decides a
/// branch, a string, another tensor in a closure. If the last kWatched of them ran at most once
/// each, a further one is not worth its compilation. Serialised by the owner's lock.
class OneOffs {
 public:
  static constexpr size_t kWatched = 16;
  static constexpr int64_t kRetry = 64;  ///< of so many calls without a program, one gets one

  /// Whether a program for the call that comes now is worth making.
  bool worth_making() {
    if (!all_ran_once()) {
      refused_ = 0;
      return true;
    }
    return ++refused_ % kRetry == 0;
  }
  void made(CallCount calls) {
    watched_.push_back(std::move(calls));
    if (watched_.size() > kWatched) watched_.pop_front();
  }
  void clear() { *this = OneOffs(); }

 private:
  bool all_ran_once() const {
    if (watched_.size() < kWatched) return false;
    for (const auto& calls : watched_) {
      if (calls->load(std::memory_order_relaxed) > 1) return false;
    }
    return true;
  }

  std::deque<CallCount> watched_;
  int64_t refused_ = 0;
};

}  // namespace antegrad::guards
