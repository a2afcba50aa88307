#pragma once

/// \file
/// A tensor of the caller that a node keeps for its backward.

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <cstdint>

#include "torch_compat/autograd_node.h"

namespace antegrad::runtime {

/// Finds changes since it was kept: of its data in place, as libtorch does, and set_data(), which
/// module.to() uses and which replaces the storage without changing the version. A storage that was
/// resized is the same one, as in eager mode: sharded training frees parameters between forward and
/// backward, and fills them again.
class KeptVariable {
 public:
  /// `is_output`: the history of the tensor is the node that keeps it. Hooks on saved tensors must
  /// be off.
  KeptVariable(const at::Tensor& tensor, bool is_output);

  /// For `node`, which keeps it. Throws libtorch's error for a changed version, and BackwardError
  /// for other data, or none.
  at::Tensor unpack(torch_compat::NodePtr node) const;

 private:
  torch::autograd::SavedVariable variable_;
  c10::weak_intrusive_ptr<c10::StorageImpl> storage_;
  int64_t offset_;
  at::ScalarType dtype_;
};

}  // namespace antegrad::runtime
