#pragma once

/// \file
/// The processes that train one model together (docs/distributed.md).

#include <antegrad/error.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

namespace antegrad {

struct GroupOptions {
  /// For joining, and for each collective. When it is over, or when a process ends, the others get
  /// a DistributedError that names it.
  std::chrono::milliseconds timeout{60'000};
};

/// What this rank did since it joined.
struct GroupStats {
  int64_t collectives = 0;
  /// Handed to collectives: what a gather makes, what a reduction takes, in bytes. What goes over
  /// the wire depends on the engine.
  int64_t bytes = 0;
  double wait_milliseconds = 0;  ///< spent in waiting for their ends
};

/// A group of processes, each with a rank from 0 to size() - 1, that run the same program and call
/// collectives in the same order. The engine below is libtorch's c10d: Gloo on the CPU and NCCL on
/// NVIDIA's GPUs, or any group that c10d knows. Copies share the group, which lives until the last
/// one is gone. Thread-safe, but the order of collectives must be the same on every rank.
class ProcessGroup {
 public:
  /// Joins the group of all processes that a launcher started: torchrun, mpirun (Open MPI, or one
  /// that sets PMI_RANK and PMI_SIZE), or anything that sets RANK, WORLD_SIZE, MASTER_ADDR and
  /// MASTER_PORT. Without any of them, a group of this process alone. May be called once in a
  /// process with more than one rank. Throws InputError for variables that contradict each other or
  /// are no numbers, DistributedError if the others do not come in time.
  static ProcessGroup of_environment(const GroupOptions& options = {});

  /// A group that c10d has under this name: of torch.distributed (`group.group_name`), or of
  /// c10d::register_process_group(). Its time-out is its own. Throws InputError for another name.
  static ProcessGroup of_c10d(const std::string& name);

  int32_t rank() const;
  int32_t size() const;
  /// Its number among the processes of this machine, by which each takes a GPU of its own:
  /// `at::Device(at::kCUDA, group.local_rank())`. The rank, where no launcher says it.
  int32_t local_rank() const;
  /// What the group is called in graphs, and where functional collectives take a group. c10d knows
  /// a group of more than one process by this name.
  const std::string& name() const;

  GroupStats stats() const;

  struct Split;
  /// Splits the group into subgroups of `size` ranks that follow each other, and into those across
  /// them. A collective. Throws InputError where size() is no multiple of `size`, and for groups of
  /// of_c10d(), which c10d splits.
  Split split(int32_t size) const;

  /// The mean of a number over all ranks. A collective. Throws DistributedError.
  double mean(double value) const;

  /// Returns when all ranks have called it. Throws DistributedError.
  void barrier() const;

  struct State;
  const std::shared_ptr<State>& state() const { return state_; }  ///< for antegrad itself

 private:
  explicit ProcessGroup(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

/// Two groups that this rank is in. Of 8 ranks, split(4) gives rank 5 the groups of 4, 5, 6, 7 and
/// of 1, 5. They fail with the time-out of the group that was split, and their errors name its
/// ranks.
struct ProcessGroup::Split {
  ProcessGroup within;  ///< of ranks that follow each other
  ProcessGroup across;  ///< of the ranks that have the same place in theirs
};

}  // namespace antegrad
