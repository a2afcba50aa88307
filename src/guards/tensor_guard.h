#pragma once

/// \file
/// The guard of one tensor's metadata.

#include <string>

#include "torch_compat/tensor_metadata.h"

namespace antegrad::guards {

/// The properties that a tensor must have: everything except data that a kernel or a derivative
/// formula can see. Besides the metadata these are its dispatch keys and its role in autograd.
class TensorGuard {
 public:
  explicit TensorGuard(const at::Tensor& tensor);
  bool matches(const at::Tensor& tensor,
               torch_compat::Match match = torch_compat::Match::exact) const;
  friend bool operator==(const TensorGuard&, const TensorGuard&) = default;
  at::IntArrayRef sizes() const { return metadata_.sizes; }
  int64_t offset() const { return metadata_.offset; }
  /// "sizes [2, 8] instead of [4, 8]"; empty if it matches.
  std::string difference(const at::Tensor& tensor) const;

 private:
  torch_compat::TensorMetadata metadata_;
  bool requires_grad_ = false;
  bool leaf_ = true;  // checked only for tensors that require grad
  bool lacks_memory_ = false;
  c10::DispatchKeySet keys_;
};

}  // namespace antegrad::guards
