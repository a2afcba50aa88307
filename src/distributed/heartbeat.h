#pragma once

/// \file
/// Says that this rank lives, and finds out which others do not.

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace antegrad::distributed {

/// A thread that counts up in the store which all ranks share. Thread-safe.
class Heartbeat {
 public:
  /// `store` is used by nobody else.
  Heartbeat(c10::intrusive_ptr<c10d::Store> store, int32_t rank, int32_t size);
  ~Heartbeat();

  /// After a collective of this rank failed: says so, and returns the ranks to blame. These are
  /// those whose counts stand still; if there are none, those that do not report a failure of their
  /// own within `patience`; the server of the store, rank 0, if it does not answer.
  std::vector<int32_t> ranks_at_fault(std::chrono::milliseconds patience);

 private:
  void run();
  std::string key(const char* what, int32_t rank) const;

  const c10::intrusive_ptr<c10d::Store> store_;
  const int32_t rank_;
  const int32_t size_;
  std::mutex store_mutex_;
  std::mutex mutex_;
  std::condition_variable stop_;
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace antegrad::distributed
