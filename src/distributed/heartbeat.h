#pragma once

/// \file
/// Says that this rank lives, and finds out which others do not.

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace antegrad::distributed {

/// Who did not take part in a collective, as far as one rank can tell.
struct Fault {
  std::vector<int32_t> ranks = {};  ///< sorted; empty if nobody knows
  std::string found = {};           ///< about them, a sentence without its subject; may be empty
};

/// A thread that counts up in the store which all ranks share. Thread-safe.
class Heartbeat {
 public:
  /// `store` is used by nobody else. `server` is the rank that serves it, -1 if none does.
  Heartbeat(c10::intrusive_ptr<c10d::Store> store, int32_t rank, int32_t size, int32_t server);
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  /// After a collective of this rank failed: says so, and returns who is to blame. These are the
  /// ranks whose counts stand still; if there are none, those that report no failure of their own
  /// within `patience`; the server of the store, if it does not answer. A rank that cannot be
  /// reached is like one that does not live.
  Fault find_fault(std::chrono::milliseconds patience);

 private:
  struct Shared;
  const std::shared_ptr<Shared> shared_;  // the thread may wait for a server that never answers
};

}  // namespace antegrad::distributed
