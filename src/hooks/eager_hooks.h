#pragma once

/// \file
/// Hooks on saved tensors that are not part of a program: they run once for each saved tensor when
/// the forward is done, and before each backward that reads it.

#include <ATen/core/Tensor.h>
#include <antegrad/saved_tensors.h>

#include <memory>

#include "torch_compat/tensor_metadata.h"

namespace antegrad::hooks {

/// A saved tensor as hooks packed it.
class PackedTensor {
 public:
  /// Runs the pack hook. Throws what it throws.
  PackedTensor(std::shared_ptr<const detail::HookPair> hooks, const at::Tensor& tensor);
  /// Runs the unpack hook; a tensor with the strides of the one that was packed, in memory that
  /// nobody else holds. Throws HookError for one of other sizes, dtype or device, and what the hook
  /// throws.
  at::Tensor unpack() const;

 private:
  std::shared_ptr<const detail::HookPair> hooks_;
  std::shared_ptr<void> packed_;
  torch_compat::TensorMetadata metadata_;
};

}  // namespace antegrad::hooks
