#pragma once

/// \file
/// Batch norm over the batches of all ranks (docs/distributed.md#batch-norm).

#include <ATen/core/Tensor.h>
#include <antegrad/process_group.h>

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace torch::nn {
class Module;
}

namespace antegrad {

/// Batch norm layers whose statistics are those of a group. Copies share them. When the last one is
/// gone, they are ordinary layers again.
class SynchronisedBatchNorm {
 public:
  const ProcessGroup& group() const { return group_; }
  size_t layers() const { return means_->size(); }

 private:
  friend SynchronisedBatchNorm synchronise_batch_norm(const torch::nn::Module&,
                                                      const ProcessGroup&);
  using Means = std::vector<at::Tensor>;
  SynchronisedBatchNorm(ProcessGroup group, std::shared_ptr<const Means> means)
      : group_(std::move(group)), means_(std::move(means)) {}

  ProcessGroup group_;
  std::shared_ptr<const Means> means_;  // running means of the layers
};

/// Lets the batch norm layers of a module (torch::nn::BatchNorm1d, 2d, 3d), while they are in
/// training, take mean and variance over the batches of all ranks in compiled callables, forward
/// and backward, as PyTorch's SyncBatchNorm does. Ranks may have batches of different sizes.
/// Running statistics are updated by those of all ranks. Eager code takes the statistics of its own
/// rank. A collective.
///
/// Throws InputError, with nothing changed, for a module without such layers, and for layers
/// without running statistics or that are synchronised already; DistributedError for other layers
/// on other ranks.
[[nodiscard]] SynchronisedBatchNorm synchronise_batch_norm(const torch::nn::Module& module,
                                                           const ProcessGroup& group);

}  // namespace antegrad
