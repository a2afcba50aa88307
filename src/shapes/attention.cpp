/// \file
/// Fused scaled-dot-product attention over (batch, heads, sequence, width). The output has the
/// layout of the query. The CPU kernels compute other results in (batch, sequence, heads, …) and
/// return transposed views, which are not contiguous.

#include <algorithm>
#include <utility>

#include "shapes/families.h"
#include "shapes/layout.h"

namespace antegrad::shapes {

namespace {

/// (batch, heads, sequence, …) as a view of a contiguous tensor (batch, sequence, heads, …).
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

bool flash_for_cpu(Call& call) {
  const at::Tensor& query = call.tensor(0);
  const at::Tensor& key = call.tensor(1);
  const at::Tensor& value = call.tensor(2);
  if (query.dim() != 4 || key.dim() != 4 || value.dim() != 4 || !query.is_cpu()) return false;
  if (query.size(3) != value.size(3) || query.size(3) != key.size(3)) return false;
  return call.returns(like(query),
                      heads_outside({query.size(0), query.size(1), query.size(2)},
                                    accumulate_type(query.scalar_type()), query.device()));
}

bool flash_for_cpu_backward(Call& call) {
  if (call.is_none(0)) return false;
  for (const size_t i : {1, 2, 3}) {
    const at::Tensor& t = call.tensor(i);
    if (t.dim() != 4 || !t.is_cpu()) return false;
    call.returns(heads_outside(t));
  }
  return true;
}

// ---- CUDA --------------------------------------------------------------------------------------

/// Whether query, key and value, from argument `first` on, are on one CUDA device, and key and
/// value have the same number of heads, which divides the query's.
bool is_plain_cuda(const Call& call, size_t first) {
  const int64_t heads = call.tensor(first).dim() == 4 ? call.tensor(first).size(1) : 0;
  for (size_t i = first; i < first + 3; ++i) {
    const at::Tensor& t = call.tensor(i);
    if (t.dim() != 4 || !t.is_cuda() || t.size(1) == 0 || heads % t.size(1) != 0) return false;
  }
  return call.tensor(first + 1).size(1) == call.tensor(first + 2).size(1);
}

/// Whether each head of the query has a key of its own.
bool same_heads(const Call& call, size_t first) {
  return call.tensor(first).size(1) == call.tensor(first + 1).size(1);
}

/// Other sizes with the dimensions in the order of the strides of `model`.
Spec in_layout_of(const at::Tensor& model, const Dims& sizes) {
  if (model.sizes().equals(sizes)) return like(model);
  Dims order = {0, 1, 2, 3};
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return model.stride(a) < model.stride(b); });
  Spec spec = contiguous(model, sizes);
  int64_t next = 1;
  for (const int64_t dim : order) {
    spec.strides[dim] = next;
    next *= sizes[dim];
  }
  return spec;
}

bool flash(Call& call) {
  const at::Tensor& query = call.tensor(0);
  const at::Tensor& key = call.tensor(1);
  if (!is_plain_cuda(call, 0) || call.boolean(5) || query.size(3) % 8 != 0) return false;
  const c10::Device device = query.device();
  // One position of a query whose heads share keys: the heads of a key take the place of positions.
  const bool swaps = query.size(2) == 1 && !same_heads(call, 0) && call.arg(3).toDouble() == 0;
  return call.returns(swaps ? heads_outside(query) : like(query),
                      fresh({query.size(0), query.size(1), query.size(2)}, at::kFloat, device),
                      undefined(), undefined(), integer(query.size(2)), integer(key.size(2)),
                      fresh({2}, at::kUInt64, device), fresh({}, at::kUInt64, device),
                      fresh({0}, query.scalar_type(), device));
}

template <size_t First>
bool gradients_like(Call& call) {
  if (!is_plain_cuda(call, First)) return false;
  for (size_t i = First; i < First + 3; ++i) call.returns(like(call.tensor(i)));
  return true;
}

bool efficient(Call& call) {
  const at::Tensor& query = call.tensor(0);
  const at::Tensor& value = call.tensor(2);
  if (!is_plain_cuda(call, 0) || !same_heads(call, 0)) return false;
  const int64_t rows = call.boolean(4) ? (query.size(2) + 31) / 32 * 32 : 0;
  const Spec seed = fresh({}, at::kLong, at::kCPU), offset = seed;
  return call.returns(heads_outside({query.size(0), query.size(1), query.size(2), value.size(3)},
                                    query.scalar_type(), query.device()),
                      fresh({query.size(0), query.size(1), rows}, at::kFloat, query.device()), seed,
                      offset);
}

bool efficient_backward(Call& call) {
  if (!is_plain_cuda(call, 1) || !same_heads(call, 1)) return false;
  const auto mask = call.arg(10).toListRef();
  if (!call.is_none(4) && mask[3].toBool()) return false;  // a gradient of the bias
  for (const size_t i : {1, 2, 3}) call.returns(heads_outside(call.tensor(i)));
  return call.returns(undefined());
}

bool cudnn(Call& call) {
  const at::Tensor& query = call.tensor(0);
  const at::Tensor& key = call.tensor(1);
  const at::Tensor& value = call.tensor(2);
  if (!is_plain_cuda(call, 0) || !call.boolean(4) || call.boolean(7)) return false;
  const c10::Device device = query.device();
  return call.returns(
      in_layout_of(query, {query.size(0), query.size(1), query.size(2), value.size(3)}),
      fresh({query.size(0), query.size(1), query.size(2), 1}, at::kFloat, device), undefined(),
      undefined(), integer(query.size(2)), integer(key.size(2)), fresh({}, at::kLong, device),
      fresh({}, at::kLong, device), undefined());
}

}  // namespace

constexpr Family attention_family = {
    {"aten::_scaled_dot_product_cudnn_attention", cudnn},
    {"aten::_scaled_dot_product_cudnn_attention_backward", gradients_like<1>},
    {"aten::_scaled_dot_product_efficient_attention", efficient},
    {"aten::_scaled_dot_product_efficient_attention_backward", efficient_backward},
    {"aten::_scaled_dot_product_flash_attention", flash},
    {"aten::_scaled_dot_product_flash_attention_backward", gradients_like<1>},
    {"aten::_scaled_dot_product_flash_attention_for_cpu", flash_for_cpu},
    {"aten::_scaled_dot_product_flash_attention_for_cpu_backward", flash_for_cpu_backward},
};

}  // namespace antegrad::shapes
