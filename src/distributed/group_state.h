#pragma once

/// \file
/// What is behind ProcessGroup: c10d's group, and how a failure of it is explained.

#include <ATen/core/Tensor.h>
#include <antegrad/process_group.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "distributed/heartbeat.h"

namespace antegrad {

/// Thread-safe. Destroyed before static objects are, or never.
struct ProcessGroup::State {
  /// What one collective started: it ends when all of it has.
  struct Part {
    c10::intrusive_ptr<c10d::Work> work;
    int32_t peer = -1;  ///< with which rank alone; -1 for all
  };
  using Works = std::vector<Part>;

  /// What is known of a group that antegrad made itself.
  struct Origin {
    c10::intrusive_ptr<c10d::Store> store = {};
    std::chrono::milliseconds timeout{};
    /// Which rank a failure comes from; null for a group of one.
    std::shared_ptr<distributed::Heartbeat> heartbeat = {};
    /// By rank of a subgroup, that of the group which all processes joined; empty for this one.
    std::vector<int32_t> ranks = {};
    int32_t local_rank = 0;  ///< among the processes of this machine
  };
  State(c10::intrusive_ptr<c10d::ProcessGroup> group, std::string name, Origin origin);

  const c10::intrusive_ptr<c10d::ProcessGroup> group;
  const std::string name;
  const int32_t rank;
  const int32_t size;
  const Origin origin;

  /// What a rank is called in errors.
  int32_t named(int32_t of) const { return origin.ranks.empty() ? of : origin.ranks[of]; }
  /// Of the next split; the same on all.
  int next_split() { return next_split_.fetch_add(1, std::memory_order_relaxed); }

  /// Starts a collective that hands over so many bytes. Throws DistributedError.
  Works start(const char* what, int64_t bytes, c10::DeviceType device,
              const std::function<Works(c10d::Backend&)>& begin);
  /// Throws DistributedError.
  void wait(const char* what, const Works& works);
  /// Throws the DistributedError of a collective that failed. `peer`: the rank that was waited for,
  /// -1 if that is not known.
  [[noreturn]] void fail(const char* what, const std::exception& error, int32_t peer = -1);
  /// Of the next collective between pairs of ranks; the same on all.
  int next_tag() {
    return kFirstTag + (next_tag_.fetch_add(1, std::memory_order_relaxed) & kLastTag);
  }
  GroupStats stats() const;

 private:
  static constexpr int kFirstTag = 1 << 30;  // others use small ones
  static constexpr int kLastTag = (1 << 20) - 1;
  std::atomic<int> next_tag_{0};
  std::atomic<int> next_split_{0};
  std::atomic<int64_t> collectives_{0};
  std::atomic<int64_t> bytes_{0};
  std::atomic<int64_t> waited_{0};  // nanoseconds
  std::mutex mutex_;
  std::string failure_;  // guarded by mutex_; the first one, empty for none
  std::vector<int32_t> at_fault_;
};

namespace distributed {

using GroupState = ProcessGroup::State;

/// The group that programs know by this name, or that c10d does. Throws DistributedError if it is
/// gone.
std::shared_ptr<GroupState> find_group(const std::string& name);
/// Lets find_group() find it, as long as it lives.
void remember_group(const std::shared_ptr<GroupState>& state);
/// c10d's group of this name; null if it has none.
c10::intrusive_ptr<c10d::ProcessGroup> group_of_c10d(const std::string& name);

}  // namespace distributed
}  // namespace antegrad
