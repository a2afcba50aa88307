#pragma once

/// \file
/// Parameters that are gathered and freed together, as one flat tensor of which each rank holds an
/// equal part.

#include <ATen/core/Tensor.h>
#include <antegrad/process_group.h>
#include <antegrad/sharding.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "capture/placeholder.h"

namespace antegrad::detail {

/// Parameters begin at multiples of 64 bytes, as tensors of their own do: kernels may compute other
/// last bits from memory that is not aligned.
class ShardUnit final : public capture::Placeholder,
                        public std::enable_shared_from_this<ShardUnit> {
 public:
  struct Member {
    std::string name;
    std::vector<int64_t> sizes;
    int64_t offset = 0;  ///< of its first element in the flat tensor
    /// Not owned: the storage of a parameter holds its unit.
    c10::weak_intrusive_ptr<c10::TensorImpl> parameter;

    int64_t elements() const;
  };

  /// The parameters stay as they are until make_shard() is called. They have one dtype and device, and
  /// all require grad, or none.
  ShardUnit(ProcessGroup group, ShardOptions options,
            const std::vector<std::pair<std::string, at::Tensor>>& parameters);

  /// Takes the memory of the parameters. A collective with ShardOptions::broadcast.
  void make_shard();
  /// Gives the parameters the memory and values of the flat tensor. A collective.
  void restore();
  /// Takes it again, and keeps this rank's part.
  void take_back();

  std::vector<at::Tensor> compute() override;
  Recompute recompute() const override;
  /// The flat gradient of this rank's part, from the gradients of the parameters; undefined if all
  /// are undefined.
  at::Tensor reduce(const std::vector<at::Tensor>& gradients) const;
  /// The parameters, of this rank's part and those of others.
  std::vector<at::Tensor> gather(const at::Tensor& shard) const;

  const ProcessGroup& group() const { return group_; }
  const at::Tensor& shard() const { return shard_; }
  const std::vector<Member>& members() const { return members_; }
  /// A unit of an inner module gets the names of the outer one.
  void rename(size_t member, std::string name) { members_[member].name = std::move(name); }
  int64_t elements_here() const { return elements_here_; }
  /// What must be the same on all ranks.
  std::string text() const;

 private:
  at::Tensor flat() const;  // with the values of the parameters
  void take_memory();

  const ProcessGroup group_;
  const ShardOptions options_;
  std::vector<Member> members_;
  int64_t elements_here_ = 0;
  at::TensorOptions kind_;
  bool requires_grad_ = false;
  at::Tensor shard_;
  at::Tensor full_;  // between restore() and take_back()
};

}  // namespace antegrad::detail
