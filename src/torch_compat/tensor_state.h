#pragma once

/// \file
/// Reads a tensor's state in a few instructions.

#include <torch/csrc/autograd/variable.h>

#include <cstring>
#include <memory>

namespace antegrad::torch_compat {

using AutogradMetaMember = std::unique_ptr<c10::AutogradMetaInterface> c10::TensorImpl::*;
/// Where a tensor keeps its autograd metadata. TensorImpl::autograd_meta() is a call into c10.
extern const AutogradMetaMember autograd_meta_member;

/// Null for a tensor without autograd metadata. All of libtorch's own tensors have this type.
inline const torch::autograd::AutogradMeta* autograd_meta(const c10::TensorImpl& impl) {
  return static_cast<const torch::autograd::AutogradMeta*>((impl.*autograd_meta_member).get());
}

/// requires_grad() without calls, except for views, which may owe it to a write to their base.
inline bool requires_grad(const c10::TensorImpl& impl) {
  const auto* meta = autograd_meta(impl);
  if (meta == nullptr) return false;
  return meta->is_view_ ? meta->requires_grad()
                        : meta->torch::autograd::AutogradMeta::requires_grad();
}

/// is_leaf() of a tensor that requires grad, without a virtual call.
inline bool is_leaf(const c10::TensorImpl& impl) {
  const auto* meta = autograd_meta(impl);
  return meta == nullptr || meta->grad_fn_ == nullptr;
}

/// Whether two tensors share a version counter (views and detached tensors do with their source).
inline bool same_version_counter(const c10::TensorImpl& a, const c10::TensorImpl& b) {
  // A VariableVersion is one private pointer; null for inference tensors.
  static_assert(sizeof(c10::VariableVersion) == sizeof(void*));
  return a.version_counter().enabled() &&
         std::memcmp(&a.version_counter(), &b.version_counter(), sizeof(void*)) == 0;
}
inline bool same_version_counter(const at::Tensor& a, const at::Tensor& b) {
  return same_version_counter(*a.unsafeGetTensorImpl(), *b.unsafeGetTensorImpl());
}

/// Makes `to` share the version counter of `from`.
inline void share_version_counter(const at::Tensor& from, const at::Tensor& to) {
  to.unsafeGetTensorImpl()->set_version_counter(from.unsafeGetTensorImpl()->version_counter());
}

/// Whether the tensor carries a forward-mode gradient.
inline bool has_forward_gradient(const c10::TensorImpl& impl) {
  const auto* meta = autograd_meta(impl);
  return meta != nullptr && meta->fw_grad_ != nullptr && !meta->fw_grad_->empty();
}

/// Whether the tensor has elements and its storage has no memory for them: it was freed, or not yet
/// allocated (resize_storage_()). Storages smaller than their tensor are not looked for.
inline bool lacks_memory(const c10::TensorImpl& impl) {
  const auto& storage = impl.unsafe_storage();
  return storage && storage.nbytes() == 0 && impl.numel() != 0;
}
inline bool lacks_memory(const at::Tensor& tensor) {
  return tensor.defined() && lacks_memory(*tensor.unsafeGetTensorImpl());
}

/// Names the kind of a tensor without strides ("a nested tensor"); null for one with strides.
inline const char* why_not_strided(const at::Tensor& tensor) {
  if (tensor.is_nested()) return "a nested tensor";
  if (tensor.is_quantized()) return "a quantised tensor";
  if (tensor.layout() != at::kStrided) return "a sparse or mkldnn tensor";
  return nullptr;
}

/// Names the kind of a tensor that is not a plain strided tensor of libtorch ("a nested tensor");
/// null for a plain one.
inline const char* why_not_plain(const at::Tensor& tensor) {
  if (tensor.key_set().has(c10::DispatchKey::Python)) return "a tensor subclass";
  if (const char* kind = why_not_strided(tensor)) return kind;
  if (tensor.is_conj() || tensor.is_neg()) return "a lazily conjugated or negated tensor";
  if (has_forward_gradient(*tensor.unsafeGetTensorImpl())) {
    return "a tensor with a forward-mode gradient";
  }
  return nullptr;
}

/// The version; 0 for inference tensors, which have none.
inline int64_t version_of(const at::Tensor& tensor) {
  return tensor.is_inference() ? 0 : tensor._version();
}

/// Hooks registered on the tensor (tensor hooks and post-accumulate hooks).
inline size_t hook_count(const at::Tensor& tensor) {
  const auto* meta = torch::autograd::impl::get_autograd_meta(tensor);
  if (meta == nullptr) return 0;
  // All functions of one list are one entry of hooks_.
  const auto functions = meta->cpp_hooks_list_ != nullptr ? meta->cpp_hooks_list_->size() : 0;
  return meta->hooks_.size() + functions + (meta->post_acc_grad_hooks_ != nullptr ? 1 : 0);
}

}  // namespace antegrad::torch_compat
