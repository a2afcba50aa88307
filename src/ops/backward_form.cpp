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
  // Also those of dimensions of one element: they have no meaning, but libtorch's kernels order
  // the dimensions of what they make by them.
  return {true, TensorMetadata::of(tangent).strides};
}

}  // namespace antegrad::ops
