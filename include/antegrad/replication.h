#pragma once

/// \file
/// Replicated training: each rank holds the whole model, and gradients are averaged over the ranks
/// (docs/distributed.md#replicas).

#include <antegrad/accumulation.h>
#include <antegrad/process_group.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace torch::nn {
class Module;
}

namespace antegrad {

struct ReplicaOptions {
  /// Gradients are sent in buckets of about so many bytes.
  int64_t bucket_bytes = int64_t{25} << 20;
  /// Whether rank 0's parameters and buffers become those of all ranks. Otherwise they must be
  /// equal already.
  bool broadcast = true;
};

namespace detail {
class ReplicaBucket;
}

/// A module whose gradients are averaged. Copies share it. When the last one is gone, the module is
/// an ordinary one again, and calls that begin from then on average nothing.
class Replicated {
 public:
  const ProcessGroup& group() const { return group_; }
  size_t buckets() const { return buckets_->size(); }

  /// Gradients of several micro-batches that are averaged once. Costs memory for them, beside
  /// `.grad`.
  Accumulating accumulating() const;
  /// Drops the gradients that were added up and not averaged.
  void forget_accumulated() const;

 private:
  friend Replicated replicate(torch::nn::Module&, const ProcessGroup&, const ReplicaOptions&);
  using Buckets = std::vector<std::shared_ptr<detail::ReplicaBucket>>;
  Replicated(ProcessGroup group, std::shared_ptr<const Buckets> buckets)
      : group_(std::move(group)), buckets_(std::move(buckets)) {}

  ProcessGroup group_;
  std::shared_ptr<const Buckets> buckets_;
};

/// Lets compiled callables average the gradients of a module's parameters over a group: what
/// arrives in `.grad` is the mean over the ranks, the same on all. The parameters stay as they are,
/// and any optimizer serves. Backward passes of eager code average nothing. A collective.
///
/// Throws InputError, with all parameters unchanged, for parameters that are sharded or replicated
/// already, share memory with other tensors, or are on several devices.
[[nodiscard]] Replicated replicate(torch::nn::Module& module, const ProcessGroup& group,
                                   const ReplicaOptions& options = {});

}  // namespace antegrad
