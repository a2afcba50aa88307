#include <ATen/ATen.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "support/shape_samples.h"

namespace antegrad::testing {

namespace {

using R = RandomTensors;

int64_t any_dim(R& r, int64_t rank) {
  const int64_t range = std::max<int64_t>(rank, 1);
  return r.integer(-range, range - 1);
}

int64_t positive_dim(R& r, int64_t rank) { return r.integer(0, std::max<int64_t>(rank, 1) - 1); }

at::Tensor any_tensor(R& r, int64_t min_rank = 0, int64_t max_rank = 4) {
  return r.tensor(r.shape(min_rank, max_rank), r.dtype());
}

c10::IValue maybe(R& r, c10::IValue value) { return r.chance(0.3) ? c10::IValue() : value; }

/// Options of a factory: dtype, layout, device, pinned.
void add_options(R& r, Arguments& a) {
  a.push_back(r.chance(0.5) ? c10::IValue() : c10::IValue(r.dtype()));
  a.push_back({});
  a.push_back(r.device().is_cpu() && r.chance(0.5) ? c10::IValue() : c10::IValue(r.device()));
  a.push_back({});
}

/// Another shape of as many elements: neighbours merged, sizes split, ones put in.
Shape reshaped(R& r, const Shape& shape) {
  Shape result;
  for (const int64_t size : shape) {
    if (!result.empty() && r.chance(0.3)) {
      result.back() *= size;
    } else if (size == 4 && r.chance(0.5)) {
      result.insert(result.end(), {2, 2});
    } else {
      result.push_back(size);
    }
    if (r.chance(0.15)) result.push_back(1);
  }
  if (!result.empty() && r.chance(0.3)) result[r.integer(0, result.size() - 1)] = -1;
  return result;
}

Arguments view(R& r) {
  const at::Tensor t = any_tensor(r);
  return {t, reshaped(r, t.sizes().vec())};
}

/// A shape and strides that stay within `t`'s storage from its offset on.
Arguments restrided(R& r, const at::Tensor& t) {
  const int64_t room =
      static_cast<int64_t>(t.storage().nbytes() / t.element_size()) - t.storage_offset();
  Shape size = r.full_shape(0, 3), stride(size.size());
  int64_t left = room - 1;
  for (size_t i = 0; i < size.size(); ++i) {
    stride[i] = r.integer(0, 3);
    if (left < 0 || (size[i] - 1) * stride[i] > left) size[i] = 1;
    left -= (size[i] - 1) * stride[i];
  }
  return {t, size, stride};
}

Arguments as_strided(R& r) {
  Arguments a = restrided(r, r.tensor(r.full_shape(0, 4), r.dtype()));
  a.push_back(r.chance(0.5) ? c10::IValue() : c10::IValue(a[0].toTensor().storage_offset()));
  return a;
}

Arguments permute(R& r) {
  const at::Tensor t = any_tensor(r);
  std::vector<int64_t> order(t.dim());
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[r.integer(0, i - 1)]);
  for (int64_t& d : order) {
    if (r.chance(0.2)) d -= t.dim();
  }
  return {t, order};
}

Arguments expand(R& r) {
  const at::Tensor t = any_tensor(r, 0, 3);
  Shape size = r.full_shape(0, 2);
  for (const int64_t s : t.sizes())
    size.push_back(s == 1 ? r.integer(1, 3) : r.chance(0.2) ? -1 : s);
  return {t, size, false};
}

Arguments slice(R& r) {
  const at::Tensor t = any_tensor(r, 1);
  return {t, any_dim(r, t.dim()), maybe(r, r.integer(-3, 5)), maybe(r, r.integer(-3, 5)),
          r.integer(1, 2)};
}

Arguments split(R& r) { return {any_tensor(r, 1), r.integer(1, 3), int64_t{0}}; }

Arguments split_with_sizes(R& r) {
  const at::Tensor t = any_tensor(r, 1);
  const int64_t dim = positive_dim(r, t.dim()), cut = r.integer(0, t.size(dim));
  return {t, Shape{cut, t.size(dim) - cut}, dim};
}

Arguments select(R& r) {
  const at::Tensor t = r.tensor(r.full_shape(1, 4), r.dtype());
  const int64_t dim = any_dim(r, t.dim());
  return {t, dim, r.integer(-t.size(dim), t.size(dim) - 1)};
}

Arguments unfold(R& r) {
  const at::Tensor t = r.tensor(r.full_shape(1, 3), r.dtype());
  const int64_t dim = any_dim(r, t.dim());
  return {t, dim, r.integer(0, t.size(dim)), r.integer(1, 2)};
}

/// Factors of a product and, with `added`, what is added to it.
Arguments product(R& r, Shape a, Shape b, const Shape* out) {
  const at::ScalarType dtype = r.chance(0.15) ? at::kLong : r.floating();
  Arguments result;
  if (out) result.push_back(r.tensor(r.narrowed(*out), dtype));
  result.push_back(r.tensor(a, dtype));
  result.push_back(r.tensor(b, dtype));
  if (out) {
    result.push_back(at::Scalar(1));
    result.push_back(at::Scalar(1));
  }
  return result;
}

Arguments matrix_product(R& r, bool batched, bool added) {
  const Shape s = r.shape(4, 4);
  Shape a = {s[0], s[1]}, b = {s[1], s[2]}, out = {s[0], s[2]};
  if (batched) {
    for (Shape* shape : {&a, &b, &out}) shape->insert(shape->begin(), s[3]);
  }
  return product(r, a, b, added ? &out : nullptr);
}

Arguments vector_product(R& r, bool added) {
  const Shape s = r.shape(2, 2);
  const Shape out = {s[0]};
  return product(r, {s[0], s[1]}, {s[1]}, added ? &out : nullptr);
}

Arguments arange(R& r, int numbers) {
  const auto number = [&](int64_t low, int64_t high) {
    const int64_t value = r.integer(low, high);
    return r.chance(0.3) ? at::Scalar(static_cast<double>(value) + 0.5) : at::Scalar(value);
  };
  Arguments a;
  if (numbers > 1) a.push_back(number(-3, 3));
  a.push_back(number(3, 9));
  if (numbers > 2) a.push_back(r.chance(0.3) ? at::Scalar(0.25) : at::Scalar(r.integer(1, 3)));
  add_options(r, a);
  return a;
}

Arguments sized(R& r, Arguments before) {
  before.push_back(r.shape());
  add_options(r, before);
  return before;
}

Arguments strided(R& r, Arguments before) {
  const at::Tensor model = any_tensor(r);
  before.push_back(model.sizes().vec());
  before.push_back(model.strides().vec());
  add_options(r, before);
  return before;
}

Arguments numbers(R& r, Arguments a) {
  add_options(r, a);
  return a;
}

Arguments pad(R& r) {
  const at::Tensor t = any_tensor(r);
  Shape widths(2 * r.integer(0, t.dim()));
  for (int64_t& w : widths) w = r.integer(r.chance(0.2) ? -1 : 0, 2);
  return {t, widths, at::Scalar(0)};
}

Arguments copy(R& r) {
  const Shape shape = r.shape();
  return {r.tensor(shape, r.dtype()), r.tensor(r.narrowed(shape), r.dtype()), false};
}

Arguments dropout_backward(R& r) {
  const Shape shape = r.shape();
  return {r.tensor(shape, r.floating()), r.tensor(shape, at::kBool), 2.0};
}

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

/// self and the source that a view of it takes.
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

/// The gradient of a view of a tensor of random sizes, those sizes, and what makes the view.
Arguments view_backward(R& r, const std::function<at::Tensor(const at::Tensor&)>& viewed,
                        Arguments rest) {
  const Shape shape = r.full_shape(2, 4);
  const at::Tensor part = viewed(r.contiguous(shape, at::kFloat));
  Arguments a = {r.tensor(part.sizes().vec(), r.floating()), shape};
  a.insert(a.end(), rest.begin(), rest.end());
  return a;
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

const ArgumentsTable& general_samples() {
  static const ArgumentsTable table = {
      {"aten::view", view},
      {"aten::_unsafe_view", view},
      {"aten::_reshape_alias",
       [](R& r) { return restrided(r, r.tensor(r.full_shape(0, 4), r.dtype())); }},
      {"aten::as_strided", as_strided},
      {"aten::permute", permute},
      {"aten::expand", expand},
      {"aten::slice.Tensor", slice},
      {"aten::split.Tensor", split},
      {"aten::unsafe_split.Tensor", split},
      {"aten::split_with_sizes", split_with_sizes},
      {"aten::unsafe_split_with_sizes", split_with_sizes},
      {"aten::select.int", select},
      {"aten::unfold", unfold},
      {"aten::t", [](R& r) { return Arguments{any_tensor(r, 0, 2)}; }},
      {"aten::transpose.int",
       [](R& r) {
         const at::Tensor t = any_tensor(r);
         return Arguments{t, any_dim(r, t.dim()), any_dim(r, t.dim())};
       }},
      {"aten::unsqueeze",
       [](R& r) {
         const at::Tensor t = any_tensor(r);
         return Arguments{t, any_dim(r, t.dim() + 1)};
       }},
      {"aten::unbind.int",
       [](R& r) {
         const at::Tensor t = any_tensor(r, 1);
         return Arguments{t, any_dim(r, t.dim())};
       }},
      {"aten::diagonal",
       [](R& r) {
         const at::Tensor t = any_tensor(r, 2);
         return Arguments{t, r.integer(-2, 2), any_dim(r, t.dim()), any_dim(r, t.dim())};
       }},

      {"aten::mm", [](R& r) { return matrix_product(r, false, false); }},
      {"aten::addmm", [](R& r) { return matrix_product(r, false, true); }},
      {"aten::_addmm_activation",
       [](R& r) {
         Arguments a = matrix_product(r, false, true);
         a.push_back(r.chance(0.5));
         return a;
       }},
      {"aten::bmm", [](R& r) { return matrix_product(r, true, false); }},
      {"aten::baddbmm", [](R& r) { return matrix_product(r, true, true); }},
      {"aten::mv", [](R& r) { return vector_product(r, false); }},
      {"aten::addmv", [](R& r) { return vector_product(r, true); }},
      {"aten::dot",
       [](R& r) {
         const Shape s = r.shape(1, 1);
         return product(r, s, s, nullptr);
       }},

      {"aten::arange", [](R& r) { return arange(r, 1); }},
      {"aten::arange.start", [](R& r) { return arange(r, 2); }},
      {"aten::arange.start_step", [](R& r) { return arange(r, 3); }},
      {"aten::empty_strided", [](R& r) { return strided(r, {}); }},
      {"aten::new_empty_strided", [](R& r) { return strided(r, {any_tensor(r)}); }},
      {"aten::eye", [](R& r) { return numbers(r, {r.integer(0, 4)}); }},
      {"aten::eye.m",
       [](R& r) {
         return numbers(r, {r.integer(0, 4), r.integer(0, 4)});
       }},
      {"aten::randint", [](R& r) { return sized(r, {int64_t{2}}); }},
      {"aten::randint.low",
       [](R& r) {
         return sized(r, {k0, int64_t{2}});
       }},
      {"aten::rand.generator",
       [](R& r) {
         Arguments a = {r.shape(), c10::IValue()};
         add_options(r, a);
         return a;
       }},
      {"aten::randn.generator",
       [](R& r) {
         Arguments a = {r.shape(), c10::IValue()};
         add_options(r, a);
         return a;
       }},
      {"aten::constant_pad_nd", pad},
      {"aten::copy", copy},
      {"aten::fill.Tensor",
       [](R& r) {
         return Arguments{any_tensor(r), r.tensor({}, r.dtype())};
       }},
      {"aten::native_dropout_backward", dropout_backward},

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
      {"aten::topk", topk},
      {"aten::roll", roll},
      {"aten::repeat", repeat},
  };
  return table;
}

}  // namespace antegrad::testing
