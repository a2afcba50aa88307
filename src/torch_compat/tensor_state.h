#pragma once

/// \file
/// Reads of a tensor's state that must cost a few instructions.

#include <torch/csrc/autograd/variable.h>

#include <cstring>

namespace antegrad::torch_compat {

/// requires_grad() without a virtual call: the autograd metadata of libtorch's own tensors has one type.
inline bool requires_grad(const c10::TensorImpl& impl) {
  const auto* meta = static_cast<const torch::autograd::AutogradMeta*>(
      const_cast<c10::TensorImpl&>(impl).autograd_meta());
  return meta != nullptr && meta->torch::autograd::AutogradMeta::requires_grad();
}

/// is_leaf() of a tensor that requires grad, without a virtual call.
inline bool is_leaf(const c10::TensorImpl& impl) {
  const auto* meta = static_cast<const torch::autograd::AutogradMeta*>(
      const_cast<c10::TensorImpl&>(impl).autograd_meta());
  return meta == nullptr || meta->grad_fn_ == nullptr;
}

/// Whether two tensors count versions together (views and detached tensors do with their source).
inline bool same_version_counter(const c10::TensorImpl& a, const c10::TensorImpl& b) {
  // A VariableVersion is one pointer, which it keeps to itself; null for inference tensors.
  static_assert(sizeof(c10::VariableVersion) == sizeof(void*));
  return a.version_counter().enabled() &&
         std::memcmp(&a.version_counter(), &b.version_counter(), sizeof(void*)) == 0;
}
inline bool same_version_counter(const at::Tensor& a, const at::Tensor& b) {
  return same_version_counter(*a.unsafeGetTensorImpl(), *b.unsafeGetTensorImpl());
}

/// Makes `to` count versions together with `from`.
inline void share_version_counter(const at::Tensor& from, const at::Tensor& to) {
  to.unsafeGetTensorImpl()->set_version_counter(from.unsafeGetTensorImpl()->version_counter());
}

/// Whether the tensor carries a gradient of forward-mode differentiation.
inline bool has_forward_gradient(const c10::TensorImpl& impl) {
  const auto* meta = static_cast<const torch::autograd::AutogradMeta*>(
      const_cast<c10::TensorImpl&>(impl).autograd_meta());
  return meta != nullptr && meta->fw_grad_ != nullptr && !meta->fw_grad_->empty();
}

/// The version, 0 for inference tensors, which have none.
inline int64_t version_of(const at::Tensor& tensor) {
  return tensor.is_inference() ? 0 : tensor._version();
}

/// Hooks registered on the tensor (tensor hooks and post-accumulate hooks).
inline size_t hook_count(const at::Tensor& tensor) {
  const auto* meta = torch::autograd::impl::get_autograd_meta(tensor);
  if (meta == nullptr) return 0;
  return meta->hooks_.size() + (meta->post_acc_grad_hooks_ != nullptr ? 1 : 0);
}

}  // namespace antegrad::torch_compat
