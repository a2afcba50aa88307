/// \file
/// Fused scaled-dot-product attention over (batch, heads, sequence, width). The output takes query's
/// layout. The CPU kernels work on (batch, sequence, heads, …) and return transposed views of that
/// for the rest, so those are not contiguous.

#include <utility>

#include "shapes/families.h"
#include "shapes/layout.h"

namespace antegrad::shapes {

namespace {

/// Contiguous as (batch, sequence, heads, …), seen as (batch, heads, sequence, …).
Spec heads_outside(Dims sizes, at::ScalarType dtype, c10::Device device) {
  std::swap(sizes[1], sizes[2]);
  Spec spec = fresh(sizes, dtype, device);
  std::swap(spec.sizes[1], spec.sizes[2]);
  std::swap(spec.strides[1], spec.strides[2]);
  return spec;
}

Spec heads_outside(const at::Tensor& t) {
  return heads_outside(Dims(t.sizes().begin(), t.sizes().end()), t.scalar_type(), t.device());
}

at::ScalarType accumulate_type(at::ScalarType dtype) {
  return dtype == at::kHalf || dtype == at::kBFloat16 ? at::kFloat : dtype;
}

bool flash_for_cpu(Call& call) {
  const at::Tensor& query = call.arg(0).toTensor();
  const at::Tensor& key = call.arg(1).toTensor();
  const at::Tensor& value = call.arg(2).toTensor();
  if (query.dim() != 4 || key.dim() != 4 || value.dim() != 4 || !query.is_cpu()) return false;
  if (query.size(3) != value.size(3) || query.size(3) != key.size(3)) return false;
  call.returns(like(query));
  call.returns(heads_outside({query.size(0), query.size(1), query.size(2)},
                             accumulate_type(query.scalar_type()), query.device()));
  return true;
}

bool flash_for_cpu_backward(Call& call) {
  if (call.is_none(0) || !call.arg(0).toTensor().defined()) return false;
  for (const size_t i : {1, 2, 3}) {
    const at::Tensor& t = call.arg(i).toTensor();
    if (t.dim() != 4 || !t.is_cpu()) return false;
    call.returns(heads_outside(t));
  }
  return true;
}

constexpr Entry kTable[] = {
    {"aten::_scaled_dot_product_flash_attention_for_cpu", flash_for_cpu},
    {"aten::_scaled_dot_product_flash_attention_for_cpu_backward", flash_for_cpu_backward},
};

}  // namespace

std::span<const Entry> attention_family() { return kTable; }

}  // namespace antegrad::shapes
