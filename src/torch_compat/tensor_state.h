#pragma once

/// \file
/// Reads of a tensor's state that must cost a few instructions.

#include <torch/csrc/autograd/variable.h>

namespace antegrad::torch_compat {

/// requires_grad() without a virtual call: the autograd metadata of libtorch's own tensors has one type.
inline bool requires_grad(const c10::TensorImpl& impl) {
  const auto* meta = static_cast<const torch::autograd::AutogradMeta*>(
      const_cast<c10::TensorImpl&>(impl).autograd_meta());
  return meta != nullptr && meta->torch::autograd::AutogradMeta::requires_grad();
}

/// Hooks registered on the tensor (tensor hooks and post-accumulate hooks).
inline size_t hook_count(const at::Tensor& tensor) {
  const auto* meta = torch::autograd::impl::get_autograd_meta(tensor);
  if (meta == nullptr) return 0;
  return meta->hooks_.size() + (meta->post_acc_grad_hooks_ != nullptr ? 1 : 0);
}

}  // namespace antegrad::torch_compat
