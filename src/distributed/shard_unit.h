#pragma once

/// \file
/// Parameters that are gathered and freed together, as one flat tensor of which each rank holds an
/// equal part.

#include <ATen/core/Tensor.h>
#include <antegrad/process_group.h>
#include <antegrad/sharding.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "capture/placeholder.h"
#include "distributed/layout.h"
#include "distributed/local_sum.h"
#include "distributed/parameters.h"

namespace antegrad::detail {

class ShardUnit final : public capture::Placeholder,
                        public std::enable_shared_from_this<ShardUnit> {
 public:
  /// The parameters stay as they are until make_shard() is called. They have one dtype and device,
  /// and all require grad, or none.
  ShardUnit(const ProcessGroup& group, ShardOptions options,
            const std::vector<distributed::Named>& parameters);

  /// Takes the memory of the parameters. A collective with ShardOptions::broadcast.
  void make_shard();
  /// Gives the parameters the memory and values of the flat tensor. A collective.
  void restore();
  /// Takes it again, and keeps this rank's part.
  void take_back();

  capture::Gradients gradients() const override;
  std::vector<at::Tensor> compute(capture::Gradients gradients) override;
  Recompute recompute() const override;
  /// The flat gradient of this rank's part, from the gradients of the parameters; undefined if all
  /// are undefined.
  at::Tensor reduce(const std::vector<at::Tensor>& gradients) const;
  /// Adds them up on this rank instead; the gradient of the sum's leaf.
  at::Tensor accumulate(const std::vector<at::Tensor>& gradients) const;
  /// The parameters, of this rank's part and those of others.
  std::vector<at::Tensor> gather(const at::Tensor& shard) const;

  const distributed::Mesh& mesh() const { return mesh_; }
  const at::Tensor& shard() const { return shard_; }
  const distributed::Layout& layout() const { return layout_; }
  const std::shared_ptr<LocalSum>& sum() const { return sum_; }
  /// A unit of an inner module gets the names of the outer one.
  void rename(size_t member, std::string name) { layout_.members[member].name = std::move(name); }
  /// What must be the same on all ranks.
  std::string text() const;

 private:
  at::Tensor flat() const;  // with the values of the parameters
  at::ScalarType dtype_of(const std::vector<at::Tensor>& gradients) const;
  at::Tensor part_here(const at::Tensor& flat) const;
  void take_memory();
  /// Calls `visit` with each parameter that is still there, and its place in the layout.
  template <class Visit>
  void each_parameter(Visit visit) const;

  const distributed::Mesh mesh_;
  const ShardOptions options_;
  distributed::Layout layout_;
  // Not owned: the storage of a parameter holds its unit.
  std::vector<c10::weak_intrusive_ptr<c10::TensorImpl>> parameters_;
  at::TensorOptions kind_;
  bool requires_grad_ = false;
  const std::shared_ptr<LocalSum> sum_;
  at::Tensor shard_;
  at::Tensor full_;  // between restore() and take_back()
};

}  // namespace antegrad::detail
