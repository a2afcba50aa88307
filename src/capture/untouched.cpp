#include "capture/untouched.h"

#include "torch_compat/tensor_state.h"

namespace antegrad::capture {
namespace {

uint32_t version_of(const at::Tensor& tensor) {
  return tensor.is_inference() ? 0 : static_cast<uint32_t>(tensor._version());
}

}  // namespace

Snapshot::Snapshot(const at::Tensor& tensor)
    : tensor_(tensor),
      data_(tensor.unsafeGetTensorImpl()->shallow_copy_and_detach(
          c10::VariableVersion(uint32_t{0}), /*allow_tensor_metadata_change=*/true)),
      grad_(tensor.unsafeGetTensorImpl()->grad()),
      version_(version_of(tensor)),
      hooks_(torch_compat::hook_count(tensor)),
      requires_grad_(tensor.requires_grad()) {}

const char* Snapshot::changed() const {
  const auto* impl = tensor_.unsafeGetTensorImpl();
  if (tensor_.requires_grad() != requires_grad_) return "requires_grad";
  if (!impl->grad().is_same(grad_)) return ".grad";
  if (!impl->has_storage() || !impl->storage().is_alias_of(data_.storage()) ||
      impl->sizes() != data_.sizes() || impl->strides() != data_.strides() ||
      impl->storage_offset() != data_.storage_offset() || impl->dtype() != data_.dtype()) {
    return "its data (set_data or resize_)";
  }
  if (version_of(tensor_) != version_) return "its version (a mutation that bypassed capture)";
  if (torch_compat::hook_count(tensor_) != hooks_) return "its hooks";
  return nullptr;
}

void Snapshot::restore() const {
  auto* impl = tensor_.unsafeGetTensorImpl();
  if (tensor_.requires_grad() != requires_grad_) tensor_.set_requires_grad(requires_grad_);
  impl->mutable_grad() = grad_;
  if (!impl->has_storage() || !impl->storage().is_alias_of(data_.storage())) {
    impl->shallow_copy_from(data_.getIntrusivePtr());
  }
}

}  // namespace antegrad::capture
