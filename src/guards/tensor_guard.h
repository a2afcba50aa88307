#pragma once

/// \file
/// The guard of one tensor's metadata.

#include <ATen/core/Tensor.h>

#include <string>

namespace antegrad::guards {

/// Metadata that a tensor must have: everything a kernel or a formula can see but the data.
class TensorGuard {
 public:
  explicit TensorGuard(const at::Tensor& tensor);
  bool matches(const at::Tensor& tensor) const;
  at::IntArrayRef sizes() const {
    return {sizes_and_strides_.data(), sizes_and_strides_.size() / 2};
  }
  int64_t offset() const { return offset_; }
  /// "sizes were [2, 8], are [4, 8]"; empty when it matches.
  std::string difference(const at::Tensor& tensor) const;

 private:
  bool defined_ = false;
  bool requires_grad_ = false;
  bool leaf_ = true;  // asked only of tensors that require grad
  c10::DispatchKeySet keys_;
  caffe2::TypeMeta dtype_;
  c10::Device device_ = c10::Device(c10::kCPU);
  int64_t offset_ = 0;
  c10::SmallVector<int64_t, 8> sizes_and_strides_;
};

}  // namespace antegrad::guards
