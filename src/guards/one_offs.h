#pragma once

/// \file
/// Notices when programs are made for nothing: each call needs another one.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>

namespace antegrad::guards {

/// How often a program ran.
struct RunCount {
  std::atomic<int64_t> started{0};
  std::atomic<int64_t> stopped{0};  ///< of these, because data gave another answer
  int64_t completed() const {
    return started.load(std::memory_order_relaxed) - stopped.load(std::memory_order_relaxed);
  }
};

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
  void made(std::shared_ptr<const RunCount> runs) {
    watched_.push_back(std::move(runs));
    if (watched_.size() > kWatched) watched_.pop_front();
  }
  void clear() { *this = OneOffs(); }

 private:
  bool all_ran_once() const {
    if (watched_.size() < kWatched) return false;
    return std::ranges::all_of(watched_, [](const auto& runs) { return runs->completed() <= 1; });
  }

  std::deque<std::shared_ptr<const RunCount>> watched_;
  int64_t refused_ = 0;
};

}  // namespace antegrad::guards
