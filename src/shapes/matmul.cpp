/// \file
/// Products of matrices and vectors, and distances between rows. All except the grouped product
/// return contiguous outputs, whatever the strides of the arguments: the structured kernels
/// allocate before they inspect layouts.

#include "shapes/families.h"
#include "shapes/layout.h"

namespace antegrad::shapes {

namespace {

bool alike(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.device() == b.device();
}

/// A product of factors with these ranks.
template <int64_t RankA, int64_t RankB>
bool product_of(Call& call, const at::Tensor& a, const at::Tensor& b) {
  if (a.dim() != RankA || b.dim() != RankB || !alike(a, b)) return false;
  const int64_t inner = RankB == 1 ? 0 : RankB - 2;
  if (a.size(RankA - 1) != b.size(inner)) return false;
  Dims sizes(a.sizes().begin(), a.sizes().end() - 1);
  if constexpr (RankA == 3) {
    if (a.size(0) != b.size(0)) return false;
  }
  if constexpr (RankB > 1) sizes.push_back(b.size(RankB - 1));
  return call.returns(contiguous(a, sizes));
}

/// mm, bmm, mv, dot.
template <int64_t RankA, int64_t RankB>
bool product(Call& call) {
  return product_of<RankA, RankB>(call, call.tensor(0), call.tensor(1));
}

/// addmm, baddbmm, addmv: argument 0 is added, broadcast to the product.
template <int64_t RankA, int64_t RankB>
bool added_product(Call& call) {
  const at::Tensor& added = call.tensor(0);
  const at::Tensor& a = call.tensor(1);
  // If the inner dimension is empty, the added tensor is returned on another path.
  if (a.numel() == 0) return false;
  if (!alike(added, a) || !product_of<RankA, RankB>(call, a, call.tensor(2))) return false;
  const Dims& sizes = call.outputs().back().sizes;
  return at::IntArrayRef(broadcast(added.sizes(), sizes)).equals(sizes);
}

/// The output of a grouped product: rows begin at multiples of 16 bytes.
Spec padded_rows(const at::Tensor& like, at::IntArrayRef sizes) {
  const auto aligned = static_cast<int64_t>(16 / like.element_size());
  Spec spec = contiguous(like, sizes);
  const int64_t row = (sizes.back() + aligned - 1) / aligned * aligned;
  spec.strides.end()[-2] = row;
  if (sizes.size() == 3) spec.strides[0] = sizes[1] * row;
  return spec;
}

/// A factor of rank 2 is divided into groups at `offs`; one of rank 3 is a batch of groups. The
/// Meta kernel registered by Python supports only bfloat16 and does not pad.
bool grouped_product(Call& call) {
  const at::Tensor& a = call.tensor(0);
  const at::Tensor& b = call.tensor(1);
  const at::Tensor offs = call.tensor(2);
  if (!a.is_cpu() || !alike(a, b) || !call.is_none(3)) return false;
  if (a.dim() < 2 || a.dim() > 3 || b.dim() < 2 || b.dim() > 3) return false;
  if (call.dtype(4).value_or(a.scalar_type()) != a.scalar_type()) return false;
  const bool cut = a.dim() == 2 || b.dim() == 2;
  if (cut != offs.defined() || (cut && offs.dim() != 1) || a.size(-1) != b.size(-2)) return false;
  const int64_t groups = cut ? offs.size(0) : a.size(0);
  if ((a.dim() == 3 && a.size(0) != groups) || (b.dim() == 3 && b.size(0) != groups)) return false;
  Dims sizes{a.size(-2), b.size(-1)};
  if (a.dim() == b.dim()) sizes.insert(sizes.begin(), groups);
  return call.returns(padded_rows(a, sizes));
}

/// A sum of products, plus an added tensor.
bool addbmm(Call& call) {
  const at::Tensor& a = call.tensor(1);
  const at::Tensor& b = call.tensor(2);
  if (a.dim() != 3 || b.dim() != 3 || a.numel() == 0) return false;
  if (!alike(call.tensor(0), a) || !alike(a, b)) return false;
  return a.is_cpu() && call.returns(contiguous(a, {a.size(1), b.size(2)}));
}

/// Sizes of all distances between the rows of two batches of matrices.
bool distances(Call& call) {
  const at::Tensor& a = call.tensor(0);
  const at::Tensor& b = call.tensor(1);
  if (a.dim() < 2 || b.dim() < 2 || !alike(a, b)) return false;
  Dims sizes = broadcast(a.sizes().slice(0, a.dim() - 2), b.sizes().slice(0, b.dim() - 2));
  sizes.append({a.size(-2), b.size(-2)});
  return call.returns(contiguous(a, sizes));
}

/// The gradient of argument 1, with the batch dimensions of the distances.
bool distances_backward(Call& call) {
  const at::Tensor& grad = call.tensor(0);
  const at::Tensor& a = call.tensor(1);
  if (a.dim() < 2 || grad.dim() < 2 || grad.numel() == 0 || a.numel() == 0) return false;
  Dims sizes(grad.sizes().begin(), grad.sizes().end() - 2);
  sizes.append({a.size(-2), a.size(-1)});
  return call.returns(contiguous(a, sizes));
}

/// Distances of each row to all later rows.
bool pairs(Call& call) {
  const at::Tensor& self = call.tensor(0);
  if (self.dim() != 2 || !self.is_contiguous()) return false;
  const int64_t rows = self.size(0);
  return rows > 0 && call.returns(contiguous(self, {rows * (rows - 1) / 2}));
}

}  // namespace

constexpr Family matmul_family = {
    {"aten::_addmm_activation", added_product<2, 2>},
    {"aten::_grouped_mm", grouped_product},
    {"aten::addbmm", addbmm},
    {"aten::addmm", added_product<2, 2>},
    {"aten::addmv", added_product<2, 1>},
    {"aten::baddbmm", added_product<3, 3>},
    {"aten::bmm", product<3, 3>},
    {"aten::dot", product<1, 1>},
    {"aten::mm", product<2, 2>},
    {"aten::mv", product<2, 1>},
    {"aten::vdot", product<1, 1>},

    {"aten::_cdist_backward", on_cpu<distances_backward>},
    {"aten::_cdist_forward", on_cpu<distances>},
    {"aten::_euclidean_dist", on_cpu<distances>},
    {"aten::_pdist_backward", on_cpu<contiguous_second>},
    {"aten::_pdist_forward", on_cpu<pairs>},
};

}  // namespace antegrad::shapes
