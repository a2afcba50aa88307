#include "guards/tensor_guard.h"

#include "torch_compat/tensor_state.h"

namespace antegrad::guards {

using torch_compat::instead;

TensorGuard::TensorGuard(const at::Tensor& tensor)
    : metadata_(torch_compat::TensorMetadata::of(tensor)) {
  if (!tensor.defined()) return;
  requires_grad_ = tensor.requires_grad();
  leaf_ = !requires_grad_ || tensor.is_leaf();
  lacks_memory_ = torch_compat::lacks_memory(tensor);
  keys_ = tensor.key_set();
}

bool TensorGuard::matches(const at::Tensor& tensor, torch_compat::Match match) const {
  if (!tensor.defined()) return !metadata_.defined;
  const auto& impl = *tensor.unsafeGetTensorImpl();
  return impl.key_set() == keys_ && metadata_.matches(tensor, match) &&
         torch_compat::requires_grad(impl) == requires_grad_ &&
         (!requires_grad_ || torch_compat::is_leaf(impl) == leaf_) &&
         torch_compat::lacks_memory(impl) == lacks_memory_ &&
         !torch_compat::has_forward_gradient(impl);
}

std::string TensorGuard::difference(const at::Tensor& tensor) const {
  if (matches(tensor)) return "";
  if (tensor.defined()) {
    if (const char* kind = torch_compat::why_not_strided(tensor))
      return std::string("it is ") + kind;
  }
  if (auto found = metadata_.difference(tensor); !found.empty()) return found;
  if (tensor.requires_grad() != requires_grad_) {
    return instead("requires_grad", tensor.requires_grad(), requires_grad_);
  }
  if (requires_grad_ && tensor.is_leaf() != leaf_) {
    return instead("is_leaf", tensor.is_leaf(), leaf_);
  }
  if (torch_compat::lacks_memory(tensor) != lacks_memory_) {
    return lacks_memory_ ? "its storage has memory, and had none"
                         : "its storage was freed (resize_storage_())";
  }
  if (torch_compat::has_forward_gradient(*tensor.unsafeGetTensorImpl())) {
    return "it has a forward-mode gradient";
  }
  return instead("dispatch keys", tensor.key_set(), keys_);
}

}  // namespace antegrad::guards
