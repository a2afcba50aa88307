#pragma once

/// \file
/// Fully sharded training: each rank holds a part of the parameters, their gradients and the
/// optimizer's state (docs/distributed.md).

#include <ATen/core/Tensor.h>
#include <antegrad/accumulation.h>
#include <antegrad/process_group.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace torch::nn {
class Module;
}

namespace antegrad {

struct ShardOptions {
  /// The dtype in which parameters are gathered and computed with; none for their own.
  std::optional<at::ScalarType> gather_dtype = std::nullopt;
  /// The dtype in which gradients are added up; none for that in which they are computed.
  std::optional<at::ScalarType> reduce_dtype = std::nullopt;
  /// Whether the backward gathers parameters again, so that the memory is free between. Otherwise
  /// they are kept from forward to backward.
  bool regather = true;
  /// Whether rank 0's parameters and buffers become those of all ranks. Otherwise they must be
  /// equal already.
  bool broadcast = true;
  /// Hybrid sharding: groups in which the module is sharded are replicas of each other. This group
  /// has the rank of each that holds the same parts (ProcessGroup::Split::across).
  std::optional<ProcessGroup> replicas = std::nullopt;
};

namespace detail {
class ShardUnit;
}

/// A module whose parameters are sharded over a group. A value; copies share it.
///
/// The parameters of the module have no memory any more. Compiled callables gather them where they
/// are used, and add their gradients up over the ranks: what arrives in `.grad` of parameters() is
/// this rank's part of the mean over the ranks, with ShardOptions::replicas those of all replicas.
/// Eager code that reads a parameter gets an error, except within unsharded().
///
/// As thread-safe as a module.
class Sharded {
 public:
  /// This rank's parts, one flat tensor for each unit and kind of parameter: leaves for an
  /// optimizer whose arithmetic is elementwise (SGD, Adam, AdamW). Those of frozen parameters do
  /// not require grad.
  const std::vector<at::Tensor>& parameters() const { return parameters_; }
  const ProcessGroup& group() const { return group_; }
  /// Of ShardOptions.
  const std::optional<ProcessGroup>& replicas() const { return replicas_; }

  /// The parameters of one flat tensor.
  struct Part {
    std::vector<std::string> names = {};  ///< in the order of their elements
    int64_t elements = 0;                 ///< of all parameters, without padding
    int64_t elements_here = 0;            ///< of this rank, with padding
  };
  std::vector<Part> parts() const;

  /// Scales the gradients of parameters() so that the 2-norm of all, over all ranks, is at most
  /// `max_norm`, as torch::nn::utils::clip_grad_norm_. Returns the norm before. A collective.
  /// Throws InputError while gradients of accumulating() are not reduced.
  double clip_grad_norm_(double max_norm) const;

  /// Gradients of several micro-batches that are reduced once. Costs memory for gradients of whole
  /// parameters, in the dtype in which they are reduced.
  Accumulating accumulating() const;
  /// Drops the gradients that were added up and not reduced.
  void forget_accumulated() const;

  /// The parameters have their memory and values for its lifetime, on every rank: for evaluation in
  /// eager mode, saving, looking. Afterwards each rank keeps its part of what is there then. A
  /// collective. Must not be alive while a compiled callable that uses the module runs or is
  /// captured.
  class Unsharded {
   public:
    ~Unsharded();
    Unsharded(Unsharded&&) noexcept = default;
    Unsharded& operator=(Unsharded&&) = delete;

   private:
    friend class Sharded;
    explicit Unsharded(std::vector<std::shared_ptr<detail::ShardUnit>> units);
    std::vector<std::shared_ptr<detail::ShardUnit>> units_;
  };
  [[nodiscard]] Unsharded unsharded() const { return Unsharded(units_); }

  /// For antegrad itself.
  const std::vector<std::shared_ptr<detail::ShardUnit>>& units() const { return units_; }
  /// Of the module, by name; replicated.
  const std::vector<std::pair<std::string, at::Tensor>>& buffers() const { return buffers_; }
  /// Other names of parameters that have several, with the one that parts() has.
  const std::vector<std::pair<std::string, std::string>>& other_names() const {
    return other_names_;
  }

 private:
  friend Sharded fully_shard(torch::nn::Module&, const ProcessGroup&, const ShardOptions&);
  Sharded(ProcessGroup group, std::optional<ProcessGroup> replicas)
      : group_(std::move(group)), replicas_(std::move(replicas)) {}

  ProcessGroup group_;
  std::optional<ProcessGroup> replicas_;
  std::vector<std::shared_ptr<detail::ShardUnit>> units_;
  std::vector<at::Tensor> parameters_;
  std::vector<std::pair<std::string, at::Tensor>> buffers_;
  std::vector<std::pair<std::string, std::string>> other_names_;
};

/// Shards the parameters of a module over a group. Parameters that are sharded already stay as they
/// are, so call it for inner modules first: each call makes a unit, whose parameters are gathered
/// and freed together. The result of the outermost call has them all. A collective.
///
/// `module` must outlive nothing: the result keeps the parameters. Throws InputError, with all
/// parameters unchanged on this rank, for parameters that share memory with other tensors, are not
/// contiguous, have gradients, or are on several devices, for a module without parameters, and for
/// inner modules that are sharded over other groups.
Sharded fully_shard(torch::nn::Module& module, const ProcessGroup& group,
                    const ShardOptions& options = {});

}  // namespace antegrad
