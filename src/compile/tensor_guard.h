#pragma once

/// \file
/// The guard of one tensor's metadata.

#include <ATen/core/Tensor.h>

#include <string>

namespace antegrad::compiler {

/// Metadata that a tensor must have: everything a kernel or a formula can see but the data.
class TensorGuard {
 public:
  explicit TensorGuard(const at::Tensor& tensor);
  bool matches(const at::Tensor& tensor) const;
  /// "sizes were [2, 8], are [4, 8]"; empty when it matches.
  std::string difference(const at::Tensor& tensor) const;

 private:
  bool defined_ = false;
  bool requires_grad_ = false;
  c10::DispatchKeySet keys_;
  caffe2::TypeMeta dtype_;
  c10::Device device_ = c10::Device(c10::kCPU);
  int64_t offset_ = 0;
  c10::SmallVector<int64_t, 8> sizes_and_strides_;
};

}  // namespace antegrad::compiler
