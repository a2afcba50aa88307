#pragma once

/// \file
/// Reads of a tensor's state that must cost a few instructions.

#include <torch/csrc/autograd/variable.h>

#include <memory>

namespace antegrad::torch_compat {

using AutogradMetaMember = std::unique_ptr<c10::AutogradMetaInterface> c10::TensorImpl::*;
/// Where a tensor keeps its autograd metadata; TensorImpl::autograd_meta() is a call into c10.
extern const AutogradMetaMember autograd_meta_member;

/// Null for a tensor that never met autograd. All of libtorch's own tensors have this type.
inline const torch::autograd::AutogradMeta* autograd_meta(const c10::TensorImpl& impl) {
  return static_cast<const torch::autograd::AutogradMeta*>((impl.*autograd_meta_member).get());
}

/// requires_grad() without calls, but for views: those may owe it to what was written to their base.
inline bool requires_grad(const c10::TensorImpl& impl) {
  const auto* meta = autograd_meta(impl);
  if (meta == nullptr) return false;
  return meta->is_view_ ? meta->requires_grad()
                        : meta->torch::autograd::AutogradMeta::requires_grad();
}

/// Hooks registered on the tensor (tensor hooks and post-accumulate hooks).
inline size_t hook_count(const at::Tensor& tensor) {
  const auto* meta = torch::autograd::impl::get_autograd_meta(tensor);
  if (meta == nullptr) return 0;
  return meta->hooks_.size() + (meta->post_acc_grad_hooks_ != nullptr ? 1 : 0);
}

}  // namespace antegrad::torch_compat
