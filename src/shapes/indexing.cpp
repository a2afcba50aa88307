/// \file
/// Joining, gathering, scattering, advanced indexing, sorting and reordering. Operators whose
/// output shape depends on data (masks as indices, nonzero, unique) have no shape function.

#include <ATen/TensorUtils.h>
#include <ATen/native/TypeProperties.h>

#include <algorithm>

#include "shapes/families.h"
#include "shapes/layout.h"

namespace antegrad::shapes {

namespace {

// ---- Joining -----------------------------------------------------------------------------------

/// For historical reasons, cat skips empty 1-D tensors.
bool is_skipped(const at::Tensor& t) { return t.dim() == 1 && t.size(0) == 0; }

/// The memory format that all parts suggest, otherwise contiguous.
at::MemoryFormat common_format(at::ArrayRef<c10::IValue> parts) {
  std::optional<at::MemoryFormat> common;
  for (const c10::IValue& part : parts) {
    const at::Tensor& t = part.toTensor();
    const at::MemoryFormat format = suggest_format(t.sizes(), t.strides());
    if (common && *common != format) return at::MemoryFormat::Contiguous;
    common = format;
  }
  return common.value_or(at::MemoryFormat::Contiguous);
}

/// The dtype that a list promotes to.
at::ScalarType common_dtype(at::ArrayRef<c10::IValue> parts) {
  at::native::ResultTypeState state;
  for (const c10::IValue& part : parts) {
    state = at::native::update_result_type_state(part.toTensor(), state);
  }
  return at::native::result_type(state);
}

bool same_device(at::ArrayRef<c10::IValue> parts) {
  return std::all_of(parts.begin(), parts.end(), [&](const c10::IValue& part) {
    return part.toTensor().device() == parts[0].toTensor().device();
  });
}

bool cat(Call& call) {
  const at::ArrayRef<c10::IValue> parts = call.arg(0).toListRef();
  if (parts.empty() || !same_device(parts)) return false;
  const auto model = std::find_if(parts.begin(), parts.end(),
                                  [](const auto& part) { return !is_skipped(part.toTensor()); });
  if (model == parts.end()) return false;
  const at::Tensor& first = model->toTensor();
  int64_t dim = call.integer(1);
  if (first.dim() == 0 || !wrap_dim(dim, first.dim())) return false;
  Dims sizes(first.sizes().begin(), first.sizes().end());
  sizes[dim] = 0;
  for (const c10::IValue& part : parts) {
    const at::Tensor& t = part.toTensor();
    if (is_skipped(t)) continue;
    if (t.dim() != first.dim()) return false;
    for (int64_t i = 0; i < t.dim(); ++i) {
      if (i != dim && t.size(i) != first.size(i)) return false;
    }
    sizes[dim] += t.size(dim);
  }
  return call.returns(fresh(sizes, common_dtype(parts), first.device(), common_format(parts)));
}

/// Like cat, of the parts as they are, or of unsqueezed parts if the new dimension is the last.
bool stack(Call& call) {
  const at::ArrayRef<c10::IValue> parts = call.arg(0).toListRef();
  if (parts.empty() || !same_device(parts)) return false;
  const at::Tensor& first = parts[0].toTensor();
  int64_t dim = call.integer(1);
  if (!wrap_dim(dim, first.dim() + 1)) return false;
  for (const c10::IValue& part : parts) {
    const at::Tensor& t = part.toTensor();
    if (!t.sizes().equals(first.sizes())) return false;
    Dims sizes(t.sizes().begin(), t.sizes().end());
    Dims strides(t.strides().begin(), t.strides().end());
    if (dim == t.dim()) {
      sizes.push_back(1);
      strides.push_back(1);
    }
    if (suggest_format(sizes, strides) != at::MemoryFormat::Contiguous) return false;
  }
  Dims sizes(first.sizes().begin(), first.sizes().end());
  sizes.insert(sizes.begin() + dim, static_cast<int64_t>(parts.size()));
  return call.returns(fresh(sizes, common_dtype(parts), first.device()));
}

// ---- Along one dimension -----------------------------------------------------------------------

bool index_select(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const at::Tensor& index = call.tensor(2);
  int64_t dim = call.integer(1);
  if (index.dim() > 1 || !wrap_dim(dim, self.dim())) return false;
  Dims sizes(self.sizes().begin(), self.sizes().end());
  if (self.dim() > 0) sizes[dim] = index.numel();
  return call.returns(contiguous(self, sizes));
}

/// Elements of self in the shape of the indices.
template <size_t Indices>
bool shaped_as(Call& call) {
  return call.returns(contiguous(call.tensor(0), call.tensor(Indices).sizes()));
}

/// Zeros with the sizes in argument 1, into which the gradient is written.
bool zeros_of_sizes(Call& call) {
  return call.returns(contiguous(call.tensor(0), call.arg(1).toDimVector()));
}

// ---- A part written into a copy ----------------------------------------------------------------

/// A copy of argument 0, if argument 1 has the sizes of the part that `view` shows with the other
/// arguments. Otherwise the operator raises its error.
bool with_part(Call& call, std::string_view view) {
  c10::SmallVector<c10::IValue, 5> arguments;
  for (size_t i = 0; i < call.size(); ++i) {
    if (i != 1) arguments.push_back(call.arg(i));
  }
  Call part(arguments);
  const Function shape = find(view);
  return shape != nullptr && shape(part) &&
         call.tensor(1).sizes().equals(part.outputs()[0].sizes) && exact_like<0>(call);
}

bool as_strided_scatter(Call& call) { return with_part(call, "aten::as_strided"); }
bool diagonal_scatter(Call& call) { return with_part(call, "aten::diagonal"); }
bool select_scatter(Call& call) { return with_part(call, "aten::select.int"); }
bool slice_scatter(Call& call) { return with_part(call, "aten::slice.Tensor"); }

// ---- Advanced indexing -------------------------------------------------------------------------

/// A list of indices in the form that TensorIterator sees: self with the indexed dimensions
/// replaced by stride 0, and the indices broadcast over the others.
bool index(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const at::ArrayRef<c10::IValue> list = call.arg(1).toListRef();
  if (static_cast<int64_t>(list.size()) > self.dim()) return false;

  Dims shape;  // the broadcast shape of the indices
  Dims indexed, kept;
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i].isNone() || !list[i].toTensor().defined()) {
      kept.push_back(static_cast<int64_t>(i));
      continue;
    }
    const at::Tensor& t = list[i].toTensor();
    const bool integer =
        t.scalar_type() == at::kLong || (t.scalar_type() == at::kInt && t.is_contiguous());
    if (!integer || t.device() != self.device()) return false;
    shape =
        indexed.empty() ? Dims(t.sizes().begin(), t.sizes().end()) : broadcast(shape, t.sizes());
    indexed.push_back(static_cast<int64_t>(i));
  }
  for (int64_t i = list.size(); i < self.dim(); ++i) kept.push_back(i);
  if (indexed.empty()) return false;

  // Separated indices go to the front; adjacent ones stay where they are.
  const bool adjacent =
      indexed.back() - indexed.front() + 1 == static_cast<int64_t>(indexed.size());
  const size_t before = adjacent ? static_cast<size_t>(indexed.front()) : 0;
  const size_t after = kept.size() - before;

  Dims sizes, strides;
  const auto keep = [&](size_t first, size_t last) {
    for (size_t i = first; i < last; ++i) {
      sizes.push_back(self.size(kept[i]));
      strides.push_back(self.stride(kept[i]));
    }
  };
  keep(0, before);
  sizes.append(shape.begin(), shape.end());
  strides.append(shape.size(), 0);
  keep(before, kept.size());

  Dims index_sizes(before, 1);
  index_sizes.append(shape.begin(), shape.end());
  index_sizes.append(after, 1);
  std::vector<Dims> index_strides;  // complete before anything refers to its elements
  for (const int64_t i : indexed) {
    const at::Tensor& t = list[i].toTensor();
    Dims expanded(shape.size(), 0);
    if (t.sizes().equals(shape)) {
      expanded.assign(t.strides().begin(), t.strides().end());
    } else {
      const size_t missing = shape.size() - t.dim();
      for (size_t d = missing; d < shape.size(); ++d) {
        const int64_t own = t.size(d - missing);
        expanded[d] = own == 1 && shape[d] != 1 ? 0 : t.stride(d - missing);
      }
      // expand() gives special strides to added dimensions of size 1.
      if (missing > 0 &&
          std::find(shape.begin(), shape.begin() + missing, 1) != shape.begin() + missing) {
        return false;
      }
    }
    const auto reshaped = at::detail::computeStride(
        at::IntArrayRef(shape), at::IntArrayRef(expanded), at::DimVector(index_sizes));
    if (!reshaped) return false;
    index_strides.emplace_back(reshaped->begin(), reshaped->end());
  }
  // CUDA copies indices with different strides.
  const bool alike = std::all_of(index_strides.begin(), index_strides.end(),
                                 [&](const Dims& s) { return s == index_strides.front(); });
  if (!self.is_cpu() && !alike) return false;

  c10::SmallVector<Geometry, 4> operands;
  operands.emplace_back(sizes, strides);
  for (const Dims& s : index_strides) operands.emplace_back(index_sizes, s);
  Spec out;
  out.dtype = self.scalar_type();
  out.device = self.device();
  iterator_layout({operands.data(), operands.size()}, out);
  return call.returns(std::move(out));
}

// ---- Order -------------------------------------------------------------------------------------

bool sort(Call& call) {
  const at::Tensor& self = call.tensor(0);
  return call.returns(like(self), with_dtype(like(self), at::kLong));
}

bool topk(Call& call) {
  const at::Tensor& self = call.tensor(0);
  int64_t dim = call.integer(2);
  const int64_t k = call.integer(1);
  if (!wrap_dim(dim, self.dim()) || k < 0) return false;
  Dims sizes(self.sizes().begin(), self.sizes().end());
  if (k > (self.dim() > 0 ? sizes[dim] : 1)) return false;
  if (self.dim() > 0) sizes[dim] = k;
  return call.returns(contiguous(self, sizes), fresh(sizes, at::kLong, self.device()));
}

bool roll(Call& call) {
  const at::Tensor& self = call.tensor(0);
  if (!self.is_contiguous() || self.numel() == 0 ||
      suggest_format(self.sizes(), self.strides()) != at::MemoryFormat::Contiguous) {
    return false;
  }
  return contiguous_first(call);
}

/// Positions in a sorted row for the values in argument `Values`.
template <size_t Values, size_t NarrowArg>
bool places_in_order(Call& call) {
  const at::Tensor& values = call.tensor(Values);
  return call.returns(
      fresh(values.sizes(), call.boolean(NarrowArg) ? at::kInt : at::kLong, values.device()));
}

/// The same for a number.
bool place_in_order(Call& call) {
  const at::Tensor& sorted = call.tensor(0);
  if (sorted.dim() != 1) return false;
  return call.returns(fresh({}, call.boolean(2) ? at::kInt : at::kLong, sorted.device()));
}

bool repeat(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const at::DimVector times = call.arg(1).toDimVector();
  const int64_t added = static_cast<int64_t>(times.size()) - self.dim();
  if (added < 0) return false;
  Dims sizes(times.begin(), times.end());
  for (int64_t i = 0; i < self.dim(); ++i) sizes[added + i] *= self.size(i);
  return call.returns(contiguous(self, sizes));
}

}  // namespace

constexpr Family indexing_family = {
    {"aten::cat", cat},
    {"aten::stack", stack},

    {"aten::gather", shaped_as<2>},
    {"aten::index_add", contiguous_first},
    {"aten::index_copy", contiguous_first},
    {"aten::index_fill.int_Scalar", like_first},
    {"aten::index_fill.int_Tensor", like_first},
    {"aten::index_reduce", contiguous_first},
    {"aten::index_select", index_select},
    {"aten::put", like_first},
    {"aten::scatter.reduce", contiguous_first},
    {"aten::scatter.src", contiguous_first},
    {"aten::scatter.value", contiguous_first},
    {"aten::scatter.value_reduce", contiguous_first},
    {"aten::scatter_add", contiguous_first},
    {"aten::scatter_reduce.two", contiguous_first},
    {"aten::take", shaped_as<1>},

    {"aten::as_strided_scatter", as_strided_scatter},
    {"aten::diagonal_scatter", diagonal_scatter},
    {"aten::select_scatter", select_scatter},
    {"aten::slice_scatter", slice_scatter},

    {"aten::diagonal_backward", zeros_of_sizes},
    {"aten::select_backward", zeros_of_sizes},
    {"aten::slice_backward", zeros_of_sizes},
    {"aten::unfold_backward", zeros_of_sizes},

    {"aten::_unsafe_index.Tensor", index},
    {"aten::_unsafe_index_put", like_first},
    {"aten::index.Tensor", index},
    {"aten::index_put", like_first},

    {"aten::bucketize.Tensor", places_in_order<0, 2>},
    {"aten::flip", like_first},
    {"aten::repeat", repeat},
    {"aten::roll", roll},
    {"aten::searchsorted.Scalar", place_in_order},
    {"aten::searchsorted.Tensor", places_in_order<1, 2>},
    {"aten::sort", sort},
    {"aten::sort.stable", sort},
    {"aten::topk", topk},
};

}  // namespace antegrad::shapes
