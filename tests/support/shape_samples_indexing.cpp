#include <ATen/ATen.h>

#include <functional>

#include "support/shape_sample_parts.h"
#include "support/shape_samples.h"

namespace antegrad::testing {

namespace {

using R = RandomTensors;

// ---- Indexing ----------------------------------------------------------------------------------

at::List<at::Tensor> parts(R& r, bool same_shape) {
  at::List<at::Tensor> list;
  Shape shape = r.shape(same_shape ? 0 : 1, 4);
  const at::ScalarType dtype = r.dtype();
  const at::Tensor first = r.tensor(shape, dtype);
  const int64_t count = r.integer(1, 3);
  for (int64_t i = 0; i < count; ++i) {
    if (!same_shape) shape[0] = r.integer(0, 3);
    if (r.chance(0.4)) {
      list.push_back(at::empty_like(first).fill_(1));
    } else if (!same_shape && r.chance(0.1)) {
      list.push_back(r.contiguous({0}, dtype));
    } else {
      list.push_back(r.tensor(shape, r.chance(0.85) ? dtype : r.dtype()));
    }
  }
  return list;
}

Arguments stack(R& r) {
  const auto list = parts(r, true);
  return {list, any_dim(r, list.get(0).dim() + 1)};
}

/// self, dim, and an index no larger than self in the other dimensions.
Arguments along(R& r, at::ScalarType dtype, bool vector_index) {
  const at::Tensor t = r.tensor(r.full_shape(1, 4), dtype);
  const int64_t dim = positive_dim(r, t.dim());
  Shape shape = vector_index ? Shape{r.integer(1, 3)} : t.sizes().vec();
  if (!vector_index) shape[dim] = r.integer(0, 3);
  return {t, dim, r.indices(shape, t.size(dim))};
}

/// Adds a source of the index' shape (scatter) or of self's with dim replaced (index_add).
Arguments along_with_source(R& r, bool vector_index, Arguments rest) {
  const at::ScalarType dtype = r.chance(0.2) ? at::kLong : r.floating();
  Arguments a = along(r, dtype, vector_index);
  Shape shape = a[2].toTensor().sizes().vec();
  if (vector_index) {
    shape = a[0].toTensor().sizes().vec();
    shape[a[1].toInt()] = a[2].toTensor().size(0);
  }
  a.push_back(r.tensor(shape, dtype));
  a.insert(a.end(), rest.begin(), rest.end());
  return a;
}

Arguments along_with_value(R& r, bool vector_index, Arguments rest) {
  Arguments a = along(r, r.floating(), vector_index);
  a.insert(a.end(), rest.begin(), rest.end());
  return a;
}

c10::List<std::optional<at::Tensor>> index_lists(R& r, const at::Tensor& self) {
  c10::List<std::optional<at::Tensor>> lists;
  const Shape shape = r.full_shape(0, 3);
  const int64_t count = r.integer(1, self.dim());
  for (int64_t i = 0; i < count; ++i) {
    if (r.chance(0.35)) {
      lists.push_back(std::nullopt);
    } else if (r.chance(0.05)) {
      lists.push_back(r.tensor({self.size(i)}, at::kBool));
    } else {
      lists.push_back(r.indices(r.narrowed(shape), self.size(i)));
    }
  }
  return lists;
}

Arguments index(R& r) {
  const at::Tensor self = r.tensor(r.full_shape(1, 4), r.dtype());
  return {self, index_lists(r, self)};
}

Arguments index_put(R& r) {
  const at::Tensor self = r.tensor(r.full_shape(1, 4), at::kFloat);
  return {self, index_lists(r, self), r.tensor({}, at::kFloat), r.chance(0.5)};
}

/// A tensor and a source that fits to a view of it.
Arguments scattered(R& r, const std::function<at::Tensor(const at::Tensor&, Arguments&)>& viewed) {
  const at::ScalarType dtype = r.dtype();
  const at::Tensor self = r.tensor(r.full_shape(2, 4), dtype);
  Arguments rest;
  const at::Tensor part = viewed(self, rest);
  Arguments a = {self, r.tensor(part.sizes().vec(), dtype)};
  a.insert(a.end(), rest.begin(), rest.end());
  return a;
}

Arguments select_scatter(R& r) {
  return scattered(r, [](const at::Tensor& t, Arguments& rest) {
    rest = {int64_t{1}, int64_t{0}};
    return t.select(1, 0);
  });
}

Arguments slice_scatter(R& r) {
  return scattered(r, [](const at::Tensor& t, Arguments& rest) {
    rest = {int64_t{1}, int64_t{0}, int64_t{1}, int64_t{1}};
    return t.slice(1, 0, 1, 1);
  });
}

Arguments diagonal_scatter(R& r) {
  return scattered(r, [](const at::Tensor& t, Arguments& rest) {
    rest = {int64_t{0}, int64_t{0}, int64_t{1}};
    return t.diagonal();
  });
}

Arguments as_strided_scatter(R& r) {
  const at::ScalarType dtype = r.dtype();
  const at::Tensor self = r.tensor(r.full_shape(1, 3), dtype);
  return {self, r.tensor({1}, dtype), Shape{1}, Shape{1}, c10::IValue()};
}

/// The gradient of a view of a tensor of random sizes, those sizes, and the arguments of the view.
Arguments view_backward(R& r, const std::function<at::Tensor(const at::Tensor&)>& viewed,
                        Arguments rest) {
  const Shape shape = r.full_shape(2, 4);
  const at::Tensor part = viewed(r.contiguous(shape, at::kFloat));
  Arguments a = {r.tensor(part.sizes().vec(), r.floating()), shape};
  a.insert(a.end(), rest.begin(), rest.end());
  return a;
}

Arguments masked_fill(R& r, bool tensor_value) {
  const Shape shape = r.shape();
  const c10::IValue value =
      tensor_value ? c10::IValue(r.tensor({}, r.floating())) : c10::IValue(r.number());
  return {r.tensor(r.narrowed(shape), r.floating()), r.tensor(r.narrowed(shape), at::kBool), value};
}

Arguments masked_scatter(R& r) {
  const Shape shape = r.shape();
  const at::ScalarType dtype = r.dtype();
  return {r.tensor(r.narrowed(shape), dtype), r.tensor(r.narrowed(shape), at::kBool),
          r.tensor({300}, dtype)};
}

Arguments kthvalue(R& r) {
  const at::Tensor t = r.tensor(r.full_shape(0, 4), r.chance(0.2) ? at::kLong : r.floating());
  return {t, int64_t{1}, any_dim(r, t.dim()), r.chance(0.5)};
}

Arguments topk(R& r) {
  const at::Tensor t = r.tensor(r.full_shape(0, 4), r.chance(0.2) ? at::kLong : r.floating());
  const int64_t dim = any_dim(r, t.dim());
  return {t, r.integer(0, t.dim() == 0 ? 1 : t.size(dim)), dim, true, true};
}

Arguments roll(R& r) {
  const at::Tensor t = any_tensor(r, 1);
  if (r.chance(0.3)) return {t, Shape{1}, Shape{}};
  return {t, Shape{r.integer(-2, 3)}, Shape{positive_dim(r, t.dim())}};
}

Arguments repeat(R& r) {
  const at::Tensor t = any_tensor(r, 0, 3);
  Shape times(t.dim() + r.integer(0, 1));
  for (int64_t& n : times) n = r.integer(0, 3);
  return {t, times};
}

constexpr int64_t k0 = 0, k1 = 1;

}  // namespace

const ArgumentsTable& indexing_samples() {
  static const ArgumentsTable table = {
      {"aten::cat",
       [](R& r) {
         return Arguments{parts(r, false), k0};
       }},
      {"aten::stack", stack},
      {"aten::gather",
       [](R& r) {
         Arguments a = along(r, r.dtype(), false);
         a.push_back(false);
         return a;
       }},
      {"aten::index_select", [](R& r) { return along(r, r.dtype(), true); }},
      {"aten::index_add", [](R& r) { return along_with_source(r, true, {at::Scalar(1)}); }},
      {"aten::index_copy", [](R& r) { return along_with_source(r, true, {}); }},
      {"aten::index_fill.int_Scalar",
       [](R& r) { return along_with_value(r, true, {at::Scalar(1)}); }},
      {"aten::index_fill.int_Tensor",
       [](R& r) { return along_with_value(r, true, {r.tensor({}, at::kFloat)}); }},
      {"aten::scatter.src", [](R& r) { return along_with_source(r, false, {}); }},
      {"aten::scatter.reduce", [](R& r) { return along_with_source(r, false, {"add"}); }},
      {"aten::scatter_add", [](R& r) { return along_with_source(r, false, {}); }},
      {"aten::scatter_reduce.two",
       [](R& r) {
         return along_with_source(r, false, {"sum", true});
       }},
      {"aten::scatter.value", [](R& r) { return along_with_value(r, false, {at::Scalar(1)}); }},
      {"aten::scatter.value_reduce",
       [](R& r) {
         return along_with_value(r, false, {at::Scalar(1), "add"});
       }},
      {"aten::select_scatter", select_scatter},
      {"aten::slice_scatter", slice_scatter},
      {"aten::diagonal_scatter", diagonal_scatter},
      {"aten::as_strided_scatter", as_strided_scatter},
      {"aten::select_backward",
       [](R& r) {
         return view_backward(r, [](const at::Tensor& t) { return t.select(1, 0); }, {k1, k0});
       }},
      {"aten::slice_backward",
       [](R& r) {
         return view_backward(r, [](const at::Tensor& t) { return t.slice(1, 0, 1, 1); },
                              {k1, k0, k1, k1});
       }},
      {"aten::diagonal_backward",
       [](R& r) {
         return view_backward(r, [](const at::Tensor& t) { return t.diagonal(); }, {k0, k0, k1});
       }},
      {"aten::unfold_backward",
       [](R& r) {
         return view_backward(r, [](const at::Tensor& t) { return t.unfold(0, 1, 1); },
                              {k0, k1, k1});
       }},
      {"aten::index.Tensor", index},
      {"aten::_unsafe_index.Tensor", index},
      {"aten::index_put", index_put},
      {"aten::_unsafe_index_put", index_put},
      {"aten::kthvalue", kthvalue},
      {"aten::masked_fill.Scalar", [](R& r) { return masked_fill(r, false); }},
      {"aten::masked_fill.Tensor", [](R& r) { return masked_fill(r, true); }},
      {"aten::masked_scatter", masked_scatter},
      {"aten::topk", topk},
      {"aten::roll", roll},
      {"aten::repeat", repeat},
  };
  return table;
}

}  // namespace antegrad::testing
