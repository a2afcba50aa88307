#include "guards/tensor_guard.h"

#include <algorithm>

#include "guards/changed.h"
#include "torch_compat/tensor_state.h"

namespace antegrad::guards {

TensorGuard::TensorGuard(const at::Tensor& tensor) : defined_(tensor.defined()) {
  if (!defined_) return;
  requires_grad_ = tensor.requires_grad();
  leaf_ = !requires_grad_ || tensor.is_leaf();
  keys_ = tensor.key_set();
  dtype_ = tensor.dtype();
  device_ = tensor.device();
  offset_ = tensor.storage_offset();
  sizes_and_strides_.append(tensor.sizes().begin(), tensor.sizes().end());
  sizes_and_strides_.append(tensor.strides().begin(), tensor.strides().end());
}

bool TensorGuard::matches(const at::Tensor& tensor) const {
  if (tensor.defined() != defined_) return false;
  if (!defined_) return true;
  const auto* impl = tensor.unsafeGetTensorImpl();
  const auto sizes = impl->sizes();
  const auto strides = impl->strides();
  const auto dims = sizes.size();
  return impl->key_set() == keys_ && impl->dtype() == dtype_ && impl->device() == device_ &&
         torch_compat::requires_grad(*impl) == requires_grad_ &&
         (!requires_grad_ || torch_compat::is_leaf(*impl) == leaf_) &&
         !torch_compat::has_forward_gradient(*impl) && impl->storage_offset() == offset_ &&
         2 * dims == sizes_and_strides_.size() &&
         std::equal(sizes.begin(), sizes.end(), sizes_and_strides_.begin()) &&
         std::equal(strides.begin(), strides.end(), sizes_and_strides_.begin() + dims);
}

std::string TensorGuard::difference(const at::Tensor& tensor) const {
  if (matches(tensor)) return "";
  if (tensor.defined() != defined_) return changed("defined", defined_, tensor.defined());
  const auto dims = sizes_and_strides_.size() / 2;
  const at::IntArrayRef sizes(sizes_and_strides_.data(), dims);
  const at::IntArrayRef strides(sizes_and_strides_.data() + dims, dims);
  if (tensor.dtype() != dtype_) return changed("dtype", dtype_, tensor.dtype());
  if (tensor.device() != device_) return changed("device", device_, tensor.device());
  if (tensor.sizes() != sizes) return changed("sizes", sizes, tensor.sizes());
  if (tensor.strides() != strides) return changed("strides", strides, tensor.strides());
  if (tensor.requires_grad() != requires_grad_) {
    return changed("requires_grad", requires_grad_, tensor.requires_grad());
  }
  if (requires_grad_ && tensor.is_leaf() != leaf_) {
    return changed("is_leaf", leaf_, tensor.is_leaf());
  }
  if (torch_compat::has_forward_gradient(*tensor.unsafeGetTensorImpl())) {
    return "it has a forward-mode gradient";
  }
  if (tensor.storage_offset() != offset_) {
    return changed("storage_offset", offset_, tensor.storage_offset());
  }
  return changed("dispatch keys", keys_, tensor.key_set());
}

}  // namespace antegrad::guards
