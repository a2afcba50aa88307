#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

#include "support/shape_sample_parts.h"
#include "support/shape_samples.h"

namespace antegrad::testing {

namespace {

using R = RandomTensors;

/// Options of a factory: dtype, layout, device, pinned.
void add_options(R& r, Arguments& a) {
  a.push_back(r.chance(0.5) ? c10::IValue() : c10::IValue(r.dtype()));
  a.push_back({});
  a.push_back(r.device().is_cpu() && r.chance(0.5) ? c10::IValue() : c10::IValue(r.device()));
  a.push_back({});
}

/// Another shape with the same number of elements: dimensions merged, split, or added.
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

/// A shape and strides that stay within the storage of `t`, from its offset on.
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

/// Factors of a matrix product and, with `added`, the tensor added to it.
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

/// A factor whose rows or columns start at multiples of 16 bytes, as the kernels require.
at::Tensor aligned_factor(R& r, Shape shape, at::ScalarType dtype) {
  const bool columns = r.chance(0.5);
  if (columns) std::swap(shape.end()[-1], shape.end()[-2]);
  const int64_t used = shape.back();
  shape.back() = (used + 7) / 8 * 8;
  const at::Tensor t = r.contiguous(shape, dtype).narrow(-1, 0, used);
  return columns ? t.transpose(-1, -2) : t;
}

Arguments grouped_product(R& r) {
  const int64_t groups = r.integer(1, 3), m = r.integer(1, 9), k = r.integer(1, 9),
                n = r.integer(1, 9);
  const bool cut_a = r.chance(0.5), cut_b = r.chance(0.5);
  const auto dtype = r.pick({at::kFloat, at::kBFloat16});
  const at::Tensor a = aligned_factor(r, cut_a ? Shape{m, k} : Shape{groups, m, k}, dtype);
  const at::Tensor b = aligned_factor(r, cut_b ? Shape{k, n} : Shape{groups, k, n}, dtype);
  // All but the first group are empty.
  c10::IValue offs;
  if (cut_a || cut_b) offs = at::full({groups}, !cut_b ? m : !cut_a ? n : k, at::kInt);
  return {a, b, offs, c10::IValue(), maybe(r, static_cast<int64_t>(dtype))};
}

Arguments vector_product(R& r, bool added) {
  const Shape s = r.shape(2, 2);
  const Shape out = {s[0]};
  return product(r, {s[0], s[1]}, {s[1]}, added ? &out : nullptr);
}

Arguments dot(R& r) {
  const Shape s = r.shape(1, 1);
  return product(r, s, s, nullptr);
}

/// The kernels (2.11) divide by a step that is 0 as an integer.
bool is_integral(const c10::IValue& dtype) {
  return dtype.isInt() && at::isIntegralType(dtype.toScalarType(), /*includeBool=*/true);
}

Arguments arange(R& r, int numbers) {
  const auto number = [&](int64_t low, int64_t high) {
    const int64_t value = r.integer(low, high);
    return r.chance(0.3) ? at::Scalar(static_cast<double>(value) + 0.5) : at::Scalar(value);
  };
  Arguments a;
  if (numbers > 1) a.push_back(number(-3, 3));
  a.push_back(number(3, 9));
  if (numbers > 2) a.push_back(at::Scalar(r.integer(1, 3)));
  add_options(r, a);
  if (numbers > 2 && r.chance(0.3) && !is_integral(a[3])) a[2] = at::Scalar(0.25);
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

Arguments unsqueeze(R& r) {
  const at::Tensor t = any_tensor(r);
  return {t, any_dim(r, t.dim() + 1)};
}

Arguments transpose(R& r) {
  const at::Tensor t = any_tensor(r);
  return {t, any_dim(r, t.dim()), any_dim(r, t.dim())};
}

Arguments diagonal(R& r) {
  const at::Tensor t = any_tensor(r, 2);
  return {t, r.integer(-2, 2), any_dim(r, t.dim()), any_dim(r, t.dim())};
}

Arguments unbind(R& r) {
  const at::Tensor t = any_tensor(r, 1);
  return {t, any_dim(r, t.dim())};
}

Arguments narrow_copy(R& r) {
  const at::Tensor t = any_tensor(r, 1);
  const int64_t dim = any_dim(r, t.dim()), start = r.integer(0, t.size(dim));
  return {t, dim, start, r.integer(0, t.size(dim) - start)};
}

Arguments triangle(R& r) {
  Arguments a = {r.integer(0, 4), r.integer(0, 4), r.integer(-3, 3)};
  a.push_back(r.chance(0.5) ? c10::IValue() : c10::IValue(at::kInt));
  a.insert(a.end(), {{}, {}, {}});
  return a;
}

Arguments matrix(R& r) { return {any_tensor(r, 0, 2)}; }

/// Metadata of a complex view and the real tensor that it is made from.
Arguments pairs(R& r) {
  Shape shape = r.shape(0, 3);
  shape.push_back(2);
  return {r.tensor(shape, r.pick({at::kFloat, at::kDouble, at::kHalf}))};
}

Arguments complex_numbers(R& r) {
  return {r.tensor(r.shape(0, 4), r.pick({at::kComplexFloat, at::kComplexDouble}))};
}

/// Limits, one or both of them a tensor; the number of steps; with `base`, the base of a logarithm.
Arguments spaced(R& r, bool first, bool second, bool base) {
  const auto limit = [&](bool tensor, double value) {
    return tensor ? c10::IValue(at::full({}, value, r.pick({at::kFloat, at::kDouble})))
                  : c10::IValue(at::Scalar(value));
  };
  Arguments a = {limit(first, 0), limit(second, 1.5), r.integer(0, 5)};
  if (base) a.push_back(10.0);
  return numbers(r, a);
}

Arguments empty_permuted(R& r) {
  const Shape shape = r.shape(0, 4);
  Shape order(shape.size());
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[r.integer(0, i - 1)]);
  return numbers(r, {shape, order});
}

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
      {"aten::t", matrix},
      {"aten::transpose.int", transpose},
      {"aten::unsqueeze", unsqueeze},
      {"aten::view_as_complex", pairs},
      {"aten::view_as_real", complex_numbers},
      {"aten::as_strided_copy", as_strided},
      {"aten::diagonal_copy", diagonal},
      {"aten::expand_copy", expand},
      {"aten::narrow_copy", narrow_copy},
      {"aten::permute_copy", permute},
      {"aten::split_copy.Tensor", split},
      {"aten::split_with_sizes_copy", split_with_sizes},
      {"aten::unbind_copy.int", unbind},
      {"aten::tril_indices", triangle},
      {"aten::triu_indices", triangle},
      {"aten::select_copy.int", select},
      {"aten::slice_copy.Tensor", slice},
      {"aten::t_copy", matrix},
      {"aten::transpose_copy.int", transpose},
      {"aten::unfold_copy", unfold},
      {"aten::unsqueeze_copy", unsqueeze},
      {"aten::view_copy", view},
      {"aten::unbind.int", unbind},
      {"aten::diagonal", diagonal},
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
      {"aten::_grouped_mm", grouped_product},
      {"aten::mv", [](R& r) { return vector_product(r, false); }},
      {"aten::addmv", [](R& r) { return vector_product(r, true); }},
      {"aten::dot", dot},
      {"aten::vdot", dot},
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
         return sized(r, {int64_t{0}, int64_t{2}});
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
      {"aten::empty_permuted", empty_permuted},
      {"aten::linspace", [](R& r) { return spaced(r, false, false, false); }},
      {"aten::linspace.Scalar_Tensor", [](R& r) { return spaced(r, false, true, false); }},
      {"aten::linspace.Tensor_Scalar", [](R& r) { return spaced(r, true, false, false); }},
      {"aten::linspace.Tensor_Tensor", [](R& r) { return spaced(r, true, true, false); }},
      {"aten::logspace", [](R& r) { return spaced(r, false, false, true); }},
      {"aten::logspace.Scalar_Tensor", [](R& r) { return spaced(r, false, true, true); }},
      {"aten::logspace.Tensor_Scalar", [](R& r) { return spaced(r, true, false, true); }},
      {"aten::logspace.Tensor_Tensor", [](R& r) { return spaced(r, true, true, true); }},
      {"aten::randperm", [](R& r) { return numbers(r, {r.integer(0, 5)}); }},
      {"aten::normal.float_float",
       [](R& r) {
         Arguments a = {0.0, 1.0, r.shape(), c10::IValue()};
         add_options(r, a);
         return a;
       }},
      {"aten::multinomial",
       [](R& r) {
         return Arguments{r.tensor(r.full_shape(1, 2), r.floating()), r.integer(1, 3), true,
                          c10::IValue()};
       }},
      {"aten::diag_embed",
       [](R& r) {
         const at::Tensor t = any_tensor(r, 1, 3);
         return Arguments{t, r.integer(-2, 2), any_dim(r, t.dim() + 1), any_dim(r, t.dim() + 1)};
       }},
      {"aten::trace", [](R& r) { return Arguments{any_tensor(r, 2, 2)}; }},
      {"aten::view.dtype",
       [](R& r) {
         return Arguments{any_tensor(r), r.pick({at::kFloat, at::kInt, at::kDouble, at::kLong,
                                                 at::kBFloat16, at::kHalf, at::kByte})};
       }},
      {"aten::constant_pad_nd", pad},
      {"aten::copy", copy},
      {"aten::fill.Tensor",
       [](R& r) {
         return Arguments{any_tensor(r), r.tensor({}, r.dtype())};
       }},
      {"aten::native_dropout_backward", dropout_backward},
  };
  return table;
}

}  // namespace antegrad::testing
