/// \file
/// Elementwise operators. Nearly all of them are TensorIterator calls. They differ only in which
/// arguments are operands, in their order, which matters for strides, and in promotion.

#include <c10/core/DefaultDtype.h>

#include "shapes/elementwise_rules.h"
#include "shapes/families.h"
#include "shapes/layout.h"

namespace antegrad::shapes {

namespace {

/// Preserves the layout of argument 0. Argument 1 must not broadcast it to a larger size.
bool like_first_of_two(Call& call) {
  return fits(call.tensor(1), call.tensor(0)) && like_first(call);
}

/// The oneDNN kernel reads out of bounds if the operands broadcast or differ in dtype.
bool gelu_backward(Call& call) {
  const at::Tensor& grad = call.tensor(0);
  const at::Tensor& self = call.tensor(1);
  return grad.sizes().equals(self.sizes()) && grad.scalar_type() == self.scalar_type() &&
         floating_binary(call);
}

/// A unary operator on `self.to(common)`: unlike promotion, it makes the copy on every device.
bool unary_of_cast(Call& call, std::initializer_list<size_t> numbers) {
  const at::Tensor& self = call.tensor(0);
  Elementwise types;
  types.add(self);
  for (const size_t i : numbers) {
    if (!call.is_none(i)) types.add(call.arg(i).toScalar());
  }
  const at::ScalarType dtype = types.common_dtype();
  if (dtype != self.scalar_type() && !self.is_cpu() && !self.is_non_overlapping_and_dense()) {
    return false;
  }
  Elementwise operands;
  operands.add(self);
  return operands.returns(call, dtype, dtype);
}

template <size_t... Numbers>
bool unary_of_cast(Call& call) {
  return unary_of_cast(call, {Numbers...});
}

/// Limits only promote integers.
template <size_t... Numbers>
bool clamp(Call& call) {
  const at::Tensor& self = call.tensor(0);
  if (self.is_complex() || self.scalar_type() == at::kBool) return false;
  return self.is_floating_point() ? unary(call) : unary_of_cast(call, {Numbers...});
}

/// abs(self) == infinity
bool isinf(Call& call) {
  if (!floating_unary(call)) return false;
  Spec& out = call.outputs().back();
  iterator_layout({Geometry(out), Geometry()}, out);
  out.dtype = at::kBool;
  return true;
}

bool clamp_tensor(Call& call) {
  Elementwise operands;
  operands.add(call, 0);
  for (const size_t i : {1, 2}) {
    if (!call.is_none(i)) operands.add(call, i);
  }
  return operands.returns(call, Promotion::kCommon);
}

bool div_mode(Call& call) { return call.is_none(2) ? binary_float(call) : binary(call); }

bool pow_scalar_tensor(Call& call) {
  const at::Tensor& exponent = call.tensor(1);
  Elementwise types;
  types.add(call, 0);
  types.add(call, 1);
  return call.returns(fresh(exponent.sizes(), types.common_dtype(), exponent.device()));
}

bool lerp_tensor(Call& call) {
  const bool promotes = call.tensor(2).dim() == 0;
  return promotes ? ternary(call) : elementwise<Promotion::kSame, 0, 1, 2>(call);
}

bool where_self(Call& call) {
  const at::Tensor& condition = call.tensor(0);
  if (condition.scalar_type() != at::kBool) return false;
  bool cast_elsewhere = false;
  Elementwise operands;
  operands.add_unpromoted(condition);
  operands.add(call, 1);
  operands.add(call, 2);
  const at::ScalarType dtype = operands.common_dtype();
  for (const size_t i : {1, 2}) {  // where casts by itself on every device
    const at::Tensor& t = call.tensor(i);
    cast_elsewhere |= t.scalar_type() != dtype && !t.is_cpu() && !t.is_non_overlapping_and_dense();
  }
  return !cast_elsewhere && operands.returns(call, dtype, dtype);
}

bool masked_fill(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const at::Tensor& mask = call.tensor(1);
  if (mask.scalar_type() != at::kBool || mask.device() != self.device()) return false;
  return call.returns(contiguous(self, broadcast(mask.sizes(), self.sizes())));
}

bool log_sigmoid_backward(Call& call) {
  const at::IntArrayRef sizes = call.tensor(0).sizes();
  return call.tensor(1).sizes().equals(sizes) && call.tensor(2).sizes().equals(sizes) &&
         like_first(call);
}

bool log_sigmoid_forward(Call& call) {
  const at::Tensor& self = call.tensor(0);
  if (self.is_cpu()) return twice<contiguous_first>(call);
  // keeps the layout and leaves the buffer empty
  return self.is_floating_point() && call.returns(like(self), contiguous(self, {0}));
}

/// The product of the two halves of argument 0.
bool glu(Call& call) {
  const at::Tensor& self = call.tensor(0);
  int64_t dim = call.integer(1);
  if (self.dim() == 0 || !wrap_dim(dim, self.dim()) || self.size(dim) % 2 != 0) return false;
  Dims sizes(self.sizes().begin(), self.sizes().end());
  sizes[dim] /= 2;
  Spec out = contiguous(self, sizes);
  const Geometry half(sizes, self.strides());
  iterator_layout({half, half}, out);
  return self.is_floating_point() && call.returns(std::move(out));
}

/// Multiplied in place into an empty_like.
bool scaled_copy(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const at::ScalarType dtype = self.scalar_type();
  return is_real(dtype) &&
         call.returns(with_dtype(like(self), is_integral(dtype) ? default_dtype() : dtype));
}

bool angle(Call& call) {
  return !call.tensor(0).is_complex() && elementwise<Promotion::kFloat, 0>(call);
}

bool complex_of_parts(Call& call) {
  if (!elementwise<Promotion::kSame, 0, 1>(call)) return false;
  Spec& out = call.outputs().back();
  if (!is_floating(out.dtype) || out.dtype == at::kBFloat16) return false;
  out.dtype = c10::toComplexType(out.dtype);
  return true;
}

bool frexp(Call& call) {
  const at::Tensor& self = call.tensor(0);
  return self.is_floating_point() && call.returns(like(self), with_dtype(like(self), at::kInt));
}

bool isin(Call& call) {
  const at::Tensor& elements = call.tensor(0);
  return call.returns(fresh(elements.sizes(), at::kBool, elements.device()));
}

/// In training the product with the noise, otherwise the gradient of a leaky ReLU.
bool rrelu_backward(Call& call) {
  const bool training =
      call.boolean(5) &&
      call.arg(4).toScalar().toDouble() - call.arg(3).toScalar().toDouble() > 1e-6;
  return training ? floating_binary_of<2, 0>(call) : floating_binary_of<1, 0>(call);
}

}  // namespace

constexpr Family pointwise_family = {
    // Unary, same dtype.
    {"aten::abs", real_unary},
    {"aten::_conj_physical", only<like_first, c10::isComplexType>},
    {"aten::bitwise_not", only<unary, is_integral>},
    {"aten::ceil", real_unary},
    {"aten::floor", real_unary},
    {"aten::frac", floating_unary},
    {"aten::neg", only<unary, is_number>},
    {"aten::round", real_unary},
    {"aten::round.decimals", real_unary},
    {"aten::sgn", unary},
    {"aten::sign", real_unary},
    {"aten::trunc", real_unary},
    // Unary, integers to floating point.
    {"aten::acos", unary_float},
    {"aten::angle", angle},
    {"aten::acosh", unary_float},
    {"aten::asin", unary_float},
    {"aten::asinh", unary_float},
    {"aten::atan", unary_float},
    {"aten::atanh", unary_float},
    {"aten::cos", unary_float},
    {"aten::cosh", unary_float},
    {"aten::deg2rad", scaled_copy},
    {"aten::digamma", unary_float},
    {"aten::erf", unary_float},
    {"aten::erfc", unary_float},
    {"aten::erfinv", unary_float},
    {"aten::exp", unary_float},
    {"aten::exp2", unary_float},
    {"aten::expm1", unary_float},
    {"aten::lgamma", unary_float},
    {"aten::log", unary_float},
    {"aten::log10", unary_float},
    {"aten::log1p", unary_float},
    {"aten::log2", unary_float},
    {"aten::logit", unary_float},
    {"aten::rad2deg", scaled_copy},
    {"aten::reciprocal", unary_float},
    {"aten::rsqrt", unary_float},
    {"aten::sigmoid", unary_float},
    {"aten::sin", unary_float},
    {"aten::sinc", unary_float},
    {"aten::sinh", unary_float},
    {"aten::sqrt", unary_float},
    {"aten::tan", unary_float},
    {"aten::tanh", unary_float},
    // Unary, bool.
    {"aten::isinf", isinf},
    {"aten::isnan", elementwise<Promotion::kBool, 0>},
    {"aten::isneginf", unary_bool},
    {"aten::isposinf", unary_bool},
    {"aten::logical_not", unary_bool},
    {"aten::signbit", unary_bool},
    // Activations.
    {"aten::celu", floating_unary},
    {"aten::elu", floating_unary},
    {"aten::gelu", floating_unary},
    {"aten::glu", glu},
    {"aten::hardshrink", floating_unary},
    {"aten::hardsigmoid", floating_unary},
    {"aten::hardswish", floating_unary},
    {"aten::hardtanh", like_first},
    {"aten::leaky_relu", floating_unary},
    {"aten::log_sigmoid_forward", log_sigmoid_forward},
    {"aten::mish", floating_unary},
    {"aten::_prelu_kernel", like_first_of_two},
    {"aten::relu", only<real_unary, is_number>},
    {"aten::silu", floating_unary},
    {"aten::softplus", floating_unary},
    {"aten::softshrink", floating_unary},
    {"aten::threshold", elementwise<Promotion::kCommon, 0>},
    // Their derivatives.
    {"aten::elu_backward", only<elementwise<Promotion::kCommon, 0, 5>, is_floating>},
    {"aten::gelu_backward", gelu_backward},
    {"aten::glu_backward", contiguous_second},
    {"aten::hardshrink_backward", floating_binary},
    {"aten::hardsigmoid_backward", floating_binary},
    {"aten::hardswish_backward", floating_binary},
    {"aten::hardtanh_backward", only<same_binary, is_floating>},
    {"aten::leaky_relu_backward", only<reversed, is_floating>},
    {"aten::log_sigmoid_backward", log_sigmoid_backward},
    {"aten::logit_backward", floating_binary},
    {"aten::mish_backward", only<same_binary, is_floating>},
    {"aten::_prelu_kernel_backward", twice<elementwise<Promotion::kSame, 1, 2, 0>>},
    {"aten::rrelu_with_noise_backward", rrelu_backward},
    {"aten::sigmoid_backward", floating_binary},
    {"aten::silu_backward", floating_binary},
    {"aten::softplus_backward", floating_binary},
    {"aten::softshrink_backward", floating_binary},
    {"aten::tanh_backward", floating_binary},
    {"aten::threshold_backward", reversed},
    // Arithmetic.
    {"aten::add.Scalar", binary},
    {"aten::add.Tensor", binary},
    {"aten::addcdiv", ternary},
    {"aten::addcmul", ternary},
    {"aten::atan2", binary_float},
    {"aten::complex", complex_of_parts},
    {"aten::copysign.Scalar", binary_float},
    {"aten::copysign.Tensor", binary_float},
    {"aten::div.Scalar", binary_float},
    {"aten::div.Scalar_mode", div_mode},
    {"aten::div.Tensor", binary_float},
    {"aten::div.Tensor_mode", div_mode},
    {"aten::floor_divide", binary},
    {"aten::floor_divide.Scalar", binary},
    {"aten::fmax", binary},
    {"aten::fmin", binary},
    {"aten::fmod.Scalar", binary},
    {"aten::fmod.Tensor", binary},
    {"aten::frexp.Tensor", frexp},
    {"aten::gcd", shift},
    {"aten::heaviside", binary},
    {"aten::hypot", binary},
    {"aten::lcm", shift},
    {"aten::lerp.Scalar", only<same_binary, is_floating>},
    {"aten::lerp.Tensor", only<lerp_tensor, is_floating>},
    {"aten::logaddexp", binary},
    {"aten::logaddexp2", floating_binary},
    {"aten::maximum", binary},
    {"aten::minimum", binary},
    {"aten::mul.Scalar", binary},
    {"aten::mul.Tensor", binary},
    {"aten::nextafter", floating_binary},
    {"aten::polar", complex_of_parts},
    {"aten::pow.Scalar", pow_scalar_tensor},
    {"aten::pow.Tensor_Scalar", unary_of_cast<1>},
    {"aten::pow.Tensor_Tensor", binary},
    {"aten::remainder.Scalar", binary},
    {"aten::remainder.Scalar_Tensor", binary},
    {"aten::remainder.Tensor", binary},
    {"aten::rsub.Scalar", only<reversed, is_number>},
    {"aten::rsub.Tensor", only<reversed, is_number>},
    {"aten::sub.Scalar", only<binary, is_number>},
    {"aten::sub.Tensor", only<binary, is_number>},
    {"aten::xlogy.Scalar_Other", binary_float},
    {"aten::xlogy.Scalar_Self", binary_float},
    {"aten::xlogy.Tensor", binary_float},
    // Bitwise and logical.
    {"aten::bitwise_and.Scalar", integral_binary},
    {"aten::bitwise_and.Scalar_Tensor", integral_binary},
    {"aten::bitwise_and.Tensor", integral_binary},
    {"aten::bitwise_left_shift.Tensor", shift},
    {"aten::bitwise_left_shift.Tensor_Scalar", shift},
    {"aten::bitwise_or.Scalar", integral_binary},
    {"aten::bitwise_or.Scalar_Tensor", integral_binary},
    {"aten::bitwise_or.Tensor", integral_binary},
    {"aten::bitwise_right_shift.Tensor", shift},
    {"aten::bitwise_right_shift.Tensor_Scalar", shift},
    {"aten::bitwise_xor.Scalar", integral_binary},
    {"aten::bitwise_xor.Scalar_Tensor", integral_binary},
    {"aten::bitwise_xor.Tensor", integral_binary},
    {"aten::logical_and", compare},
    {"aten::logical_or", compare},
    {"aten::logical_xor", compare},
    // Comparisons.
    {"aten::eq.Scalar", compare},
    {"aten::eq.Tensor", compare},
    {"aten::ge.Scalar", compare},
    {"aten::ge.Tensor", compare},
    {"aten::gt.Scalar", compare},
    {"aten::gt.Tensor", compare},
    {"aten::le.Scalar", compare},
    {"aten::le.Tensor", compare},
    {"aten::lt.Scalar", compare},
    {"aten::lt.Tensor", compare},
    {"aten::ne.Scalar", compare},
    {"aten::ne.Tensor", compare},
    // Selection.
    {"aten::clamp", clamp<1, 2>},
    {"aten::clamp.Tensor", clamp_tensor},
    {"aten::clamp_max", clamp<1>},
    {"aten::clamp_max.Tensor", binary},
    {"aten::clamp_min", clamp<1>},
    {"aten::clamp_min.Tensor", binary},
    {"aten::isin.Tensor_Tensor", isin},
    {"aten::masked_fill.Scalar", masked_fill},
    {"aten::masked_fill.Tensor", masked_fill},
    {"aten::masked_scatter", masked_fill},
    {"aten::nan_to_num", like_first},
    {"aten::where.self", where_self},
};

}  // namespace antegrad::shapes
