/// \file
/// Views: the geometry is computed, the storage is the argument's, and the offset counts from the
/// start of the storage. Invalid arguments throw as the operator does, or are left to it by
/// returning `false`.

#ifndef AT_PER_OPERATOR_HEADERS
#define AT_PER_OPERATOR_HEADERS  // ExpandUtils.h would pull in every operator
#endif
#include <ATen/ExpandUtils.h>
#include <ATen/InferSize.h>
#include <ATen/TensorUtils.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "shapes/families.h"
#include "shapes/layout.h"

namespace antegrad::shapes {

namespace {

/// The geometry of a view, derived from that of `self`.
struct View {
  explicit View(const at::Tensor& self)
      : self(self),
        sizes(self.sizes().begin(), self.sizes().end()),
        strides(self.strides().begin(), self.strides().end()),
        offset(self.storage_offset()) {}

  void erase(int64_t dim) {
    sizes.erase(sizes.begin() + dim);
    strides.erase(strides.begin() + dim);
  }
  void keep(int64_t to, int64_t from) {
    sizes[to] = sizes[from];
    strides[to] = strides[from];
  }
  bool returns(Call& call) const { return call.returns(view_of(self, sizes, strides, offset)); }

  const at::Tensor& self;
  Dims sizes, strides;
  int64_t offset;
};

bool same_geometry(Call& call) { return View(call.tensor(0)).returns(call); }

bool view(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const at::DimVector sizes = at::infer_size_dv(call.arg(1).toDimVector(), self.numel());
  const auto strides = at::detail::computeStride(self.sizes(), self.strides(), sizes);
  if (!strides) return false;
  return call.returns(view_of(self, sizes, *strides, self.storage_offset()));
}

bool view_dtype(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const at::ScalarType dtype = call.arg(1).toScalarType();
  if (c10::elementSize(dtype) != c10::elementSize(self.scalar_type())) return false;
  if (self.is_complex() || c10::isComplexType(dtype)) return false;
  return call.returns(with_dtype(spec_of(self), dtype));
}

bool reshape_alias(Call& call) {
  const at::Tensor& self = call.tensor(0);
  return call.returns(
      view_of(self, call.arg(1).toDimVector(), call.arg(2).toDimVector(), self.storage_offset()));
}

bool as_strided(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const int64_t offset = call.is_none(3) ? self.storage_offset() : call.integer(3);
  const at::DimVector sizes = call.arg(1).toDimVector();
  const at::DimVector strides = call.arg(2).toDimVector();
  if (offset < 0 || sizes.size() != strides.size()) return false;
  return call.returns(view_of(self, sizes, strides, offset));
}

bool transpose_dims(Call& call, int64_t a, int64_t b) {
  View view(call.tensor(0));
  const int64_t rank = view.self.dim();
  if (!wrap_dim(a, rank) || !wrap_dim(b, rank)) return false;
  if (a != b) {
    std::swap(view.sizes[a], view.sizes[b]);
    std::swap(view.strides[a], view.strides[b]);
  }
  return view.returns(call);
}

bool transpose(Call& call) { return transpose_dims(call, call.integer(1), call.integer(2)); }

bool t(Call& call) {
  const int64_t rank = call.tensor(0).dim();
  return rank <= 2 && transpose_dims(call, 0, rank < 2 ? 0 : 1);
}

bool permute(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const at::DimVector order = call.arg(1).toDimVector();
  const auto rank = static_cast<size_t>(self.dim());
  if (order.size() != rank) return false;
  View view(self);
  c10::SmallVector<bool, 6> seen(rank, false);
  for (size_t i = 0; i < rank; ++i) {
    int64_t from = order[i];
    if (!wrap_dim(from, self.dim()) || std::exchange(seen[from], true)) return false;
    view.sizes[i] = self.size(from);
    view.strides[i] = self.stride(from);
  }
  return view.returns(call);
}

bool expand(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const at::DimVector sizes = call.arg(1).toDimVector();
  if (static_cast<int64_t>(sizes.size()) < self.dim()) return false;
  const auto g = at::inferExpandGeometry_dimvector(self.sizes(), self.strides(), sizes);
  return call.returns(view_of(self, g.sizes, g.strides, self.storage_offset()));
}

bool unsqueeze(Call& call) {
  View view(call.tensor(0));
  const int64_t rank = view.self.dim();
  int64_t dim = call.integer(1);
  if (!wrap_dim(dim, rank + 1)) return false;
  const int64_t stride = dim < rank ? view.sizes[dim] * view.strides[dim] : 1;
  view.sizes.insert(view.sizes.begin() + dim, 1);
  view.strides.insert(view.strides.begin() + dim, stride);
  return view.returns(call);
}

/// Removes the dimensions of size 1 that `drops` selects.
template <class Predicate>
bool squeeze_where(Call& call, Predicate drops) {
  View view(call.tensor(0));
  int64_t kept = 0;
  for (int64_t i = 0; i < view.self.dim(); ++i) {
    if (view.sizes[i] == 1 && drops(i)) continue;
    view.keep(kept++, i);
  }
  view.sizes.resize(kept);
  view.strides.resize(kept);
  return view.returns(call);
}

bool squeeze(Call& call) {
  return squeeze_where(call, [](int64_t) { return true; });
}

bool squeeze_dim(Call& call) {
  int64_t dim = call.integer(1);
  if (!wrap_dim(dim, call.tensor(0).dim())) return false;
  return squeeze_where(call, [dim](int64_t i) { return i == dim; });
}

bool squeeze_dims(Call& call) {
  at::DimVector dims = call.arg(1).toDimVector();
  for (int64_t& dim : dims) {
    if (!wrap_dim(dim, call.tensor(0).dim())) return false;
  }
  return squeeze_where(
      call, [&](int64_t i) { return std::find(dims.begin(), dims.end(), i) != dims.end(); });
}

bool slice(Call& call) {
  View view(call.tensor(0));
  int64_t dim = call.integer(1);
  const int64_t step = call.integer(4);
  if (view.self.dim() == 0 || !wrap_dim(dim, view.self.dim()) || step <= 0) return false;
  const int64_t size = view.sizes[dim];
  int64_t start = call.is_none(2) ? 0 : call.integer(2);
  int64_t end = call.is_none(3) ? std::numeric_limits<int64_t>::max() : call.integer(3);
  if (start < 0) start += size;
  if (end < 0) end += size;
  start = std::clamp<int64_t>(start, 0, size);
  end = std::clamp<int64_t>(end, start, size);
  view.offset += start * view.strides[dim];
  view.sizes[dim] = (end - start + step - 1) / step;
  view.strides[dim] *= step;
  return view.returns(call);
}

bool select_one(Call& call, int64_t dim, int64_t index) {
  View view(call.tensor(0));
  if (view.self.dim() == 0 || !wrap_dim(dim, view.self.dim())) return false;
  const int64_t size = view.sizes[dim];
  if (index < -size || index >= size) return false;
  if (index < 0) index += size;
  view.offset += index * view.strides[dim];
  view.erase(dim);
  return view.returns(call);
}

bool select(Call& call) { return select_one(call, call.integer(1), call.integer(2)); }

bool unbind(Call& call) {
  const at::Tensor& self = call.tensor(0);
  int64_t dim = call.integer(1);
  if (self.dim() == 0 || !wrap_dim(dim, self.dim())) return false;
  for (int64_t i = 0; i < self.size(dim); ++i) select_one(call, dim, i);
  return true;
}

/// Consecutive pieces along `dim`, with lengths from `next` until the end is reached.
template <class Next>
bool split_by(Call& call, int64_t dim, size_t count, Next length_of) {
  const View whole(call.tensor(0));
  int64_t start = 0;
  for (size_t i = 0; i < count; ++i) {
    View piece = whole;
    const int64_t length = length_of(i);
    if (length < 0 || start + length > whole.sizes[dim]) return false;
    piece.sizes[dim] = length;
    piece.offset += start * piece.strides[dim];
    piece.returns(call);
    start += length;
  }
  return start == whole.sizes[dim];
}

bool split(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const int64_t length = call.integer(1);
  int64_t dim = call.integer(2);
  if (self.dim() == 0 || !wrap_dim(dim, self.dim())) return false;
  const int64_t size = self.size(dim);
  if (length < 0 || (length == 0 && size != 0)) return false;
  const int64_t count = length == 0 ? 1 : std::max<int64_t>((size + length - 1) / length, 1);
  return split_by(call, dim, count, [&](size_t i) {
    return std::min<int64_t>(length, size - static_cast<int64_t>(i) * length);
  });
}

bool split_with_sizes(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const at::DimVector lengths = call.arg(1).toDimVector();
  int64_t dim = call.integer(2);
  if (self.dim() == 0 || !wrap_dim(dim, self.dim())) return false;
  return split_by(call, dim, lengths.size(), [&](size_t i) { return lengths[i]; });
}

bool diagonal(Call& call) {
  View view(call.tensor(0));
  const int64_t offset = call.integer(1);
  int64_t a = call.integer(2), b = call.integer(3);
  if (!wrap_dim(a, view.self.dim()) || !wrap_dim(b, view.self.dim()) || a == b) return false;
  const int64_t rows = view.sizes[a] + std::min<int64_t>(offset, 0);
  const int64_t columns = view.sizes[b] - std::max<int64_t>(offset, 0);
  const int64_t length = std::max<int64_t>(std::min(rows, columns), 0);
  if (length > 0) view.offset += offset >= 0 ? offset * view.strides[b] : -offset * view.strides[a];
  const int64_t stride = view.strides[a] + view.strides[b];
  view.erase(std::max(a, b));
  view.erase(std::min(a, b));
  view.sizes.push_back(length);
  view.strides.push_back(stride);
  return view.returns(call);
}

bool unfold(Call& call) {
  View view(call.tensor(0));
  int64_t dim = call.integer(1);
  const int64_t length = call.integer(2), step = call.integer(3);
  if (view.self.dim() == 0 || !wrap_dim(dim, view.self.dim()) || step <= 0) return false;
  if (length < 0 || length > view.sizes[dim]) return false;
  view.sizes.push_back(length);
  view.strides.push_back(view.strides[dim]);
  view.sizes[dim] = (view.sizes[dim] - length) / step + 1;
  view.strides[dim] *= step;
  return view.returns(call);
}

/// A copy of the elements that `View` shows.
template <Function View>
bool copied(Call& call) {
  if (!View(call)) return false;
  for (Spec& out : call.outputs()) out = fresh(out.sizes, out.dtype, out.device);
  return true;
}

bool narrow_copy(Call& call) {
  const at::Tensor& self = call.tensor(0);
  int64_t dim = call.integer(1);
  if (self.dim() == 0 || !wrap_dim(dim, self.dim())) return false;
  Dims sizes(self.sizes().begin(), self.sizes().end());
  sizes[dim] = call.integer(3);
  return sizes[dim] >= 0 && call.returns(contiguous(self, sizes));
}

/// Complex numbers as pairs of real numbers.
bool view_as_real(Call& call) {
  View view(call.tensor(0));
  if (!view.self.is_complex() || view.self.is_conj()) return false;
  for (int64_t& stride : view.strides) stride *= 2;
  view.offset *= 2;
  view.sizes.push_back(2);
  view.strides.push_back(1);
  if (!view.returns(call)) return false;
  call.outputs().back().dtype = c10::toRealValueType(view.self.scalar_type());
  return true;
}

bool view_as_complex(Call& call) {
  View view(call.tensor(0));
  const at::ScalarType dtype = view.self.scalar_type();
  if (!c10::isFloatingType(dtype) || dtype == at::kBFloat16) return false;
  if (view.sizes.empty() || view.sizes.back() != 2 || view.strides.back() != 1) return false;
  view.erase(view.self.dim() - 1);
  for (int64_t& stride : view.strides) {
    if (stride % 2 != 0) return false;
    stride /= 2;
  }
  if (view.offset % 2 != 0) return false;
  view.offset /= 2;
  if (!view.returns(call)) return false;
  call.outputs().back().dtype = c10::toComplexType(dtype);
  return true;
}

}  // namespace

constexpr Family view_family = {
    {"aten::_reshape_alias", reshape_alias},
    {"aten::_unsafe_view", view},
    {"aten::alias", same_geometry},
    {"aten::as_strided", as_strided},
    {"aten::detach", same_geometry},
    {"aten::diagonal", diagonal},
    {"aten::expand", expand},
    {"aten::lift_fresh", same_geometry},
    {"aten::permute", permute},
    {"aten::select.int", select},
    {"aten::slice.Tensor", slice},
    {"aten::split.Tensor", split},
    {"aten::split_with_sizes", split_with_sizes},
    {"aten::squeeze", squeeze},
    {"aten::squeeze.dim", squeeze_dim},
    {"aten::squeeze.dims", squeeze_dims},
    {"aten::t", t},
    {"aten::transpose.int", transpose},
    {"aten::unbind.int", unbind},
    {"aten::unfold", unfold},
    {"aten::unsafe_split.Tensor", split},
    {"aten::unsafe_split_with_sizes", split_with_sizes},
    {"aten::unsqueeze", unsqueeze},
    {"aten::view", view},
    {"aten::view.dtype", view_dtype},
    {"aten::view_as_complex", view_as_complex},
    {"aten::view_as_real", view_as_real},

    {"aten::alias_copy", copied<same_geometry>},
    {"aten::as_strided_copy", copied<as_strided>},
    {"aten::detach_copy", copied<same_geometry>},
    {"aten::diagonal_copy", copied<diagonal>},
    {"aten::expand_copy", copied<expand>},
    {"aten::narrow_copy", on_cpu<narrow_copy>},
    {"aten::permute_copy", copied<permute>},
    {"aten::select_copy.int", copied<select>},
    {"aten::slice_copy.Tensor", copied<slice>},
    {"aten::split_copy.Tensor", copied<split>},
    {"aten::split_with_sizes_copy", copied<split_with_sizes>},
    {"aten::squeeze_copy", copied<squeeze>},
    {"aten::squeeze_copy.dim", copied<squeeze_dim>},
    {"aten::squeeze_copy.dims", copied<squeeze_dims>},
    {"aten::t_copy", copied<t>},
    {"aten::transpose_copy.int", copied<transpose>},
    {"aten::unbind_copy.int", copied<unbind>},
    {"aten::unfold_copy", copied<unfold>},
    {"aten::unsqueeze_copy", copied<unsqueeze>},
    {"aten::view_copy", copied<view>},
};

}  // namespace antegrad::shapes
