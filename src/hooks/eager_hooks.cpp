#include "hooks/eager_hooks.h"

#include <ATen/EmptyTensor.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <antegrad/error.h>

#include <utility>

#include "torch_compat/tensor_state.h"

namespace antegrad::hooks {
namespace {

bool is_ours_alone(const at::Tensor& tensor) {
  return tensor.use_count() == 1 && tensor.storage().use_count() == 1;
}

// A copy of the tensor with these strides, under which several elements may share memory, and this
// offset: as_strided() in a program counts from the start of the memory.
at::Tensor copy_with_layout(const at::Tensor& tensor, at::IntArrayRef strides, int64_t offset) {
  const auto elements = static_cast<int64_t>(
      at::detail::computeStorageNbytes(tensor.sizes(), strides, /*itemsize=*/1, offset));
  const auto memory = at::empty({elements}, tensor.options());
  auto copy = memory.as_strided(tensor.sizes(), strides, offset);
  if (at::has_internal_overlap(copy) == at::MemOverlap::No) {
    copy.copy_(tensor);
    return copy;
  }
  const auto positions = at::arange(elements, tensor.options().dtype(at::kLong))
                             .as_strided(tensor.sizes(), strides, offset);
  memory.index_put_({positions}, tensor);
  return copy;
}

}  // namespace

PackedTensor::PackedTensor(std::shared_ptr<const detail::HookPair> hooks, const at::Tensor& tensor)
    : hooks_(std::move(hooks)), metadata_(torch_compat::TensorMetadata::of(tensor)) {
  const at::NoGradGuard no_grad;
  packed_ = hooks_->pack_object(tensor.detach());
}

at::Tensor PackedTensor::unpack() const {
  const at::NoGradGuard no_grad;
  auto tensor = hooks_->unpack_object(packed_);
  if (tensor.defined()) tensor = tensor.resolve_conj().resolve_neg();
  const char* kind = tensor.defined() ? torch_compat::why_not_plain(tensor) : "no tensor";
  constexpr auto kMatch = torch_compat::Match::values;
  if (kind != nullptr || !metadata_.matches(tensor, kMatch)) {
    throw HookError(
        ErrorText{"unpack of '" + hooks_->options.name + "' to give back " + to_text(metadata_),
                  kind != nullptr ? kind : metadata_.difference(tensor, kMatch),
                  "return a tensor of the sizes, dtype and device of the one that was packed"});
  }
  if (tensor.strides().equals(metadata_.strides) && tensor.storage_offset() == metadata_.offset &&
      is_ours_alone(tensor)) {
    return tensor;
  }
  return copy_with_layout(tensor, metadata_.strides, metadata_.offset);
}

}  // namespace antegrad::hooks
