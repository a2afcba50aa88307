#include "ops/backward_form.h"

#include "shapes/shape_call.h"

namespace antegrad::ops {

using torch_compat::TensorMetadata;

TensorMetadata natural_tangent(const TensorMeta& output) {
  auto tangent = TensorMetadata::of(output);
  tangent.offset = 0;
  if (!torch_compat::is_dense(tangent.sizes, tangent.strides)) {
    tangent.strides = shapes::contiguous_strides(tangent.sizes);
  }
  return tangent;
}

TangentForm form_of(const at::Tensor& tangent, const TensorMetadata& natural) {
  if (!tangent.defined()) return {false, std::nullopt};
  if (natural.matches(tangent, torch_compat::Match::layout)) return {};
  auto strides = TensorMetadata::of(tangent).strides;
  // The stride of a dimension of size 1 has no meaning.
  for (size_t d = 0; d < strides.size(); ++d) {
    if (natural.sizes[d] == 1) strides[d] = natural.strides[d];
  }
  return {true, std::move(strides)};
}

}  // namespace antegrad::ops
