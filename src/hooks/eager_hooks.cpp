#include "hooks/eager_hooks.h"

#include <ATen/EmptyTensor.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty_strided.h>
#include <antegrad/error.h>
#include <c10/util/StringUtil.h>

#include <utility>

#include "torch_compat/tensor_state.h"

namespace antegrad::hooks {
namespace {

std::string text_of(at::IntArrayRef sizes, const at::TensorOptions& options) {
  return c10::str(options.dtype().name(), sizes, " on ", options.device());
}

std::string text_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return "no tensor";
  if (const char* kind = torch_compat::why_not_plain(tensor)) return kind;
  return text_of(tensor.sizes(), tensor.options());
}

bool is_ours_alone(const at::Tensor& tensor) {
  return tensor.use_count() == 1 && tensor.storage().use_count() == 1;
}

// The tensor's elements in memory of these strides, of which several may be one element.
at::Tensor copy_with_strides(const at::Tensor& tensor, at::IntArrayRef strides) {
  auto copy = at::empty_strided(tensor.sizes(), strides, tensor.options());
  if (at::has_internal_overlap(copy) == at::MemOverlap::No) {
    copy.copy_(tensor);
    return copy;
  }
  const auto elements = at::detail::computeStorageNbytes(tensor.sizes(), strides, /*itemsize=*/1);
  const auto positions =
      at::arange(static_cast<int64_t>(elements), tensor.options().dtype(at::kLong))
          .as_strided(tensor.sizes(), strides);
  copy.as_strided({static_cast<int64_t>(elements)}, {1}).index_put_({positions}, tensor);
  return copy;
}

}  // namespace

PackedTensor::PackedTensor(std::shared_ptr<const detail::HookPair> hooks, const at::Tensor& tensor)
    : hooks_(std::move(hooks)),
      sizes_(tensor.sizes().vec()),
      strides_(tensor.strides().vec()),
      options_(tensor.options()) {
  const at::NoGradGuard no_grad;
  packed_ = hooks_->pack_object(tensor.detach());
}

at::Tensor PackedTensor::unpack() const {
  const at::NoGradGuard no_grad;
  auto tensor = hooks_->unpack_object(packed_);
  if (tensor.defined()) tensor = tensor.resolve_conj().resolve_neg();
  const bool same = tensor.defined() && torch_compat::why_not_plain(tensor) == nullptr &&
                    tensor.sizes() == at::IntArrayRef(sizes_) &&
                    tensor.dtype() == options_.dtype() && tensor.device() == options_.device();
  if (!same) {
    throw HookError(ErrorText{
        "unpack of '" + hooks_->options.name + "' to give back " + text_of(sizes_, options_),
        text_of(tensor),
        "return a tensor of the sizes, dtype and device of the one that was packed"});
  }
  if (tensor.strides() == at::IntArrayRef(strides_) && tensor.storage_offset() == 0 &&
      is_ours_alone(tensor)) {
    return tensor;
  }
  return copy_with_strides(tensor, strides_);
}

}  // namespace antegrad::hooks
