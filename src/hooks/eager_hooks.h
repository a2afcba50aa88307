#pragma once

/// \file
/// Hooks on saved tensors that are not part of a program. They run once for each saved tensor after
/// the forward, and before each backward that reads it.

#include <ATen/core/Tensor.h>
#include <antegrad/saved_tensors.h>

#include <memory>

#include "torch_compat/tensor_metadata.h"

namespace antegrad::hooks {

/// A saved tensor in packed form.
class PackedTensor {
 public:
  /// Runs the pack hook, whose exceptions propagate.
  PackedTensor(std::shared_ptr<const detail::HookPair> hooks, const at::Tensor& tensor);
  /// Runs the unpack hook. Returns a tensor with the strides of the original, in memory without
  /// other owners. Throws HookError if sizes, dtype or device differ; exceptions of the hook
  /// propagate.
  at::Tensor unpack() const;

 private:
  std::shared_ptr<const detail::HookPair> hooks_;
  std::shared_ptr<void> packed_;
  torch_compat::TensorMetadata metadata_;
};

}  // namespace antegrad::hooks
