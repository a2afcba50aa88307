#include <ATen/ATen.h>

#include "picks.h"

namespace antegrad::fuzz {
namespace {

bool two_any(Picker& p, Statement& s) {
  if (!p.add(s, real_number)) return false;
  const auto first = p.at(s, 0);
  return p.add(s, [&](const at::Tensor& t) { return real_number(t) && broadcasts_to(t, first); });
}
bool two_integral(Picker& p, Statement& s) {
  const auto fits = [](const at::Tensor& t) { return integral(t) || boolean(t); };
  if (!p.add(s, fits)) return false;
  const auto first = p.at(s, 0);
  return p.add(s, [&](const at::Tensor& t) { return fits(t) && broadcasts_to(t, first); });
}
bool number_and_dtype(Picker& p, Statement& s) {
  s.integers = {p.integer(0, 4)};
  return one_real(p, s);
}
bool two_reals(Picker& p, Statement& s) { return two_any(p, s); }

}  // namespace

std::span<const Operation> pointwise_operations() {
  static const Operation kAll[] = {
      AG_VALUE(unary, one_float, at::sin(c.t[0])),
      AG_VALUE(unary, one_float, at::cos(c.t[0])),
      AG_VALUE(unary, one_float, at::tanh(c.t[0])),
      AG_VALUE(unary, one_float, at::sigmoid(c.t[0])),
      AG_VALUE(unary, one_number, at::relu(c.t[0])),
      AG_VALUE(unary, one_float, at::gelu(c.t[0])),
      AG_VALUE(unary, one_float, at::silu(c.t[0])),
      AG_VALUE(unary, one_float, at::exp(c.t[0].clamp(-3, 3))),
      AG_VALUE(unary, one_number, at::neg(c.t[0])),
      AG_VALUE(unary, one_number, at::abs(c.t[0])),
      AG_VALUE(unary, one_float, (c.t[0].abs() + 0.1).sqrt()),
      AG_VALUE(unary, one_float, at::log(c.t[0].abs() + 0.5)),
      AG_VALUE(unary, one_float, at::rsqrt(c.t[0].square() + 0.5)),
      AG_VALUE(unary, one_number, at::sign(c.t[0])),
      AG_VALUE(unary, one_float, at::floor(c.t[0])),
      AG_VALUE(unary, one_float, at::leaky_relu(c.t[0], 0.2)),
      AG_VALUE(unary, one_float, at::softplus(c.t[0])),
      AG_VALUE(unary, one_float, at::elu(c.t[0])),
      AG_VALUE(unary, one_float, at::hardtanh(c.t[0])),
      AG_VALUE(unary, one_float, at::hardswish(c.t[0])),
      AG_VALUE(unary, one_float, at::mish(c.t[0])),
      AG_VALUE(unary, one_float, at::erf(c.t[0])),
      AG_VALUE(unary, one_float, at::atan(c.t[0])),
      AG_VALUE(unary, one_float, at::log_sigmoid(c.t[0])),
      AG_VALUE(unary, one_float, at::log1p(c.t[0].abs())),
      AG_VALUE(unary, one_float, at::reciprocal(c.t[0].abs() + 1)),
      AG_VALUE(unary, one_real, at::logical_not(c.t[0])),
      AG_VALUE(unary, one_float, at::nan_to_num(c.t[0])),
      AG_VALUE(unary, one_real, c.t[0].clone()),
      AG_VALUE(unary, one_real, c.t[0].contiguous()),
      AG_VALUE(unary, one_real, at::zeros_like(c.t[0])),
      AG_VALUE(unary, one_real, at::ones_like(c.t[0])),

      AG_VALUE(scalar, number_and_number, c.t[0] + c.x[0]),
      AG_VALUE(scalar, number_and_number, c.t[0] * c.x[0]),
      AG_VALUE(scalar, number_and_number, c.x[0] - c.t[0]),
      AG_VALUE(scalar, number_and_number, c.t[0] / c.x[0]),
      AG_VALUE(scalar, one_number, c.t[0] * 2),
      AG_VALUE(scalar, one_number, c.t[0] + 1),
      AG_VALUE(scalar, one_float, at::pow(c.t[0], 2)),
      AG_VALUE(scalar, one_float, at::pow(c.t[0].clamp(-2, 2), 3)),
      AG_VALUE(scalar, float_and_number, at::pow(c.t[0].abs() + 0.5, c.x[0])),
      AG_VALUE(scalar, one_number, at::remainder(c.t[0], 3)),
      AG_VALUE(scalar, float_and_number, at::clamp_min(c.t[0], c.x[0])),
      AG_VALUE(scalar, one_number, c.t[0] > 0),
      AG_VALUE(scalar, number_and_number, at::ne(c.t[0], c.x[0])),
      AG_VALUE(scalar, float_and_number, c.t[0] + at::full({}, c.x[0], c.t[0].options())),

      AG_VALUE(binary, two_numbers, c.t[0] + c.t[1]),
      AG_VALUE(binary, two_numbers, c.t[1] - c.t[0]),
      AG_VALUE(binary, two_numbers, c.t[0] * c.t[1]),
      AG_VALUE(binary, two_numbers, c.t[0] / (c.t[1].abs() + 1)),
      AG_VALUE(binary, two_numbers, at::maximum(c.t[0], c.t[1])),
      AG_VALUE(binary, two_numbers, at::minimum(c.t[1], c.t[0])),
      AG_VALUE(binary, two_floats, at::atan2(c.t[0], c.t[1].abs() + 1)),
      AG_VALUE(binary, two_numbers, at::add(c.t[0], c.t[1], 3)),
      AG_VALUE(binary, three_floats,
               at::addcmul(c.t[0], c.t[1], c.t[2].to(c.t[1].scalar_type()), 0.5)),
      AG_VALUE(binary, two_floats, at::lerp(c.t[0], c.t[1].to(c.t[0].scalar_type()), 0.3)),
      AG_VALUE(binary, two_floats, at::hypot(c.t[0], c.t[1].abs() + 1)),
      AG_VALUE(binary, two_floats, at::logaddexp(c.t[0], c.t[1])),
      AG_VALUE(binary, two_reals, at::lt(c.t[0], c.t[1])),
      AG_VALUE(binary, two_reals, at::eq(c.t[0], c.t[1])),
      AG_VALUE(binary, two_reals, at::logical_and(c.t[0], c.t[1])),
      AG_VALUE(binary, two_integral, at::bitwise_xor(c.t[0], c.t[1])),

      AG_VALUE(cast, number_and_dtype, c.t[0].to(dtype_of(c.i[0]))),
      AG_VALUE(cast, one_real, c.t[0].to(at::kFloat)),
      AG_VALUE(cast, one_real, c.t[0].to(at::kDouble)),
      AG_VALUE(cast, two_reals, c.t[1].type_as(c.t[0])),
      AG_VALUE(cast, one_real, c.t[0].to(at::kFloat, false, true)),
  };
  return kAll;
}

}  // namespace antegrad::fuzz
