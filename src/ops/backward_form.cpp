#include "ops/backward_form.h"

#include <algorithm>
#include <numeric>

#include "torch_compat/convert.h"

namespace antegrad::ops {
namespace {

// Each byte between first and last belongs to one element: what libtorch calls non-overlapping and
// dense.
bool is_dense(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides) {
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return true;
  std::vector<size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::erase_if(order, [&](size_t d) { return sizes[d] == 1; });
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return strides[a] < strides[b]; });
  int64_t step = 1;
  for (const auto d : order) {
    if (strides[d] != step) return false;
    step *= sizes[d];
  }
  return true;
}

}  // namespace

NaturalTangent natural_tangent(const TensorMeta& meta) {
  NaturalTangent tangent{torch_compat::to_ints(meta.sizes), torch_compat::to_ints(meta.strides)};
  if (!is_dense(tangent.sizes, tangent.strides)) {
    tangent.strides = torch_compat::to_ints(contiguous_strides(meta.sizes));
  }
  return tangent;
}

TangentForm form_of(const at::Tensor& tangent, const NaturalTangent& natural) {
  if (!tangent.defined()) return {false, std::nullopt};
  const auto sizes = tangent.sizes();
  const auto strides = tangent.strides();
  std::vector<int64_t> form(strides.begin(), strides.end());
  bool same = tangent.numel() == 0;
  if (!same) {
    // The stride of a dimension of size one says nothing.
    for (size_t d = 0; d < form.size(); ++d) {
      if (sizes[d] == 1) form[d] = natural.strides[d];
    }
    same = form == natural.strides;
  }
  if (same) return {};
  return {true, std::move(form)};
}

}  // namespace antegrad::ops
