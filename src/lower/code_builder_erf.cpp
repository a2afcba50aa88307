// Functions that ATen and oneDNN compute themselves, as instructions. src/lower/c has the same in
// C.

#include <iterator>

#include <fmt/format.h>

#include "lower/code_builder.h"

namespace antegrad::lower {
namespace {

constexpr DType kF32 = DType::f32;

/// Abramowitz and Stegun 7.1.26, by falling powers of t.
constexpr double kErf[] = {1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592};

constexpr uint32_t kGeluPolynomials[6][32] = {
#include "lower/c/gelu_polynomials.inc"
};

/// C of oneDNN's gelu for AVX-512: 1 + erf by a polynomial in |x| chosen by its exponent and two
/// bits.
std::string gelu_text(const std::string& name) {
  std::string rows;
  for (const auto& row : kGeluPolynomials) {
    rows += "{";
    for (const uint32_t bits : row) rows += fmt::format("{:#x},", bits);
    rows += "},";
  }
  return fmt::format(
      R"(typedef int {0}_i __attribute__((vector_size(64)));
typedef float {0}_f __attribute__((vector_size(64)));
static const unsigned {0}_table[6][32] __attribute__((aligned(64))) = {{{1}}};
static inline {0}_f {0}_pick(int d, {0}_i k) {{
#ifdef __clang__
  {0}_i r;
  for (int i = 0; i < 16; i++) r[i] = (int){0}_table[d][k[i]];
  return ({0}_f)r;
#else
  const {0}_i* row = (const {0}_i*){0}_table[d];
  return ({0}_f)__builtin_shuffle(row[0], row[1], k);
#endif
}}
static inline {0}_f {0}_fma({0}_f a, {0}_f b, {0}_f c) {{
#if defined(__AVX512F__) && !defined(__clang__)
  return __builtin_ia32_vfmaddps512_mask(a, b, c, (unsigned short)-1, 4);
#else
  {0}_f r;
  for (int i = 0; i < 16; i++) r[i] = __builtin_fmaf(a[i], b[i], c[i]);
  return r;
#endif
}}
static inline {0}_f {0}({0}_f x) {{
  const {0}_i sign = ({0}_i)x & (int)0x80000000;
  const {0}_f a = ({0}_f)(({0}_i)x & 0x7fffffff);
  {0}_i k = (({0}_i)a + (int)0xc21fffffu) >> 21;
  k = (k & (k > 0)) | (1 & ~(k > 0));
  k = (k & (k < 24)) | (24 & ~(k < 24));
  const {0}_i saturated = a > 0x1.62b9dcp2f;
  k = (23 & saturated) | (k & ~saturated);
  {0}_f p = {0}_pick(5, k);
  for (int d = 4; d >= 0; d--) p = {0}_fma(p, a, {0}_pick(d, k));
  return x * (({0}_f)(({0}_i)p ^ sign) + 1.0f) * 0.5f;
}})",
      name, rows);
}

}  // namespace

Id CodeBuilder::polynomial(Id x, std::span<const double> coefficients) {
  Id value = constant(kF32, coefficients.front());
  for (const double coefficient : coefficients.subspan(1)) {
    value = add(Op::fma, kF32, {value, x, constant(kF32, coefficient)});
  }
  return value;
}

Id CodeBuilder::flip_sign(Id a, Id b) {
  const Id sign = add({Op::constant, DType::i32, {}, 0x80000000, -1});
  const Id other = add(Op::bit_and, DType::i32, {add(Op::bitcast, DType::i32, {b}), sign});
  const Id bits = add(Op::bit_xor, DType::i32, {add(Op::bitcast, DType::i32, {a}), other});
  return add(Op::bitcast, kF32, {bits});
}

// 1 - exponential * t * p(t), with the sign of x; t = 1 / (1 + 0.3275911 |x|).
Id CodeBuilder::dnn_erf(Id x, Id exponential) {
  const Id one = constant(kF32, 1);
  const Id size = add(Op::abs, kF32, {x});
  const Id t =
      add(Op::div, kF32, {one, add(Op::fma, kF32, {constant(kF32, 0.3275911), size, one})});
  const Id scaled = add(Op::mul, kF32, {add(Op::neg, kF32, {exponential}), t});
  return flip_sign(add(Op::fma, kF32, {scaled, polynomial(t, kErf), one}), x);
}

// Vectorized<float>::erf.
Id CodeBuilder::vector_erf(Id x, const Site& site) {
  const Id square = add(Op::mul, kF32, {x, x});
  return dnn_erf(x, library("vec_exp", {add(Op::neg, kF32, {square})}, site));
}

// Multiplies, then adds: two roundings before the floor.
Id CodeBuilder::dnn_exp(Id x) {
  constexpr double kSeries[] = {0.00828929059, 0.0418978221, 0.166676521,
                                0.499991506,   0.999999701,  1};
  const Id low = constant(kF32, -87.3365478515625);
  const Id one = constant(kF32, 1);
  const Id bounded =
      add(Op::max, kF32, {add(Op::min, kF32, {x, constant(kF32, 88.72283935546875)}), low});
  const Id product = add(Op::mul, kF32, {bounded, constant(kF32, 1.44269502162933349609375)});
  const Id n = add(Op::floor, kF32, {add(Op::add, kF32, {product, constant(kF32, 0.5)})});
  const Id r = add(Op::fma, kF32,
                   {add(Op::neg, kF32, {n}), constant(kF32, 0.693147182464599609375), bounded});
  const Id exponent = add(Op::cast, DType::i32, {add(Op::sub, kF32, {n, one})});
  const Id biased =
      add(Op::add, DType::i32, {exponent, add({Op::constant, DType::i32, {}, 127, -1})});
  const Id power =
      add(Op::bitcast, kF32,
          {add(Op::shl, DType::i32, {biased, add({Op::constant, DType::i32, {}, 23, -1})})});
  const Id below = add(Op::lt, DType::boolean, {x, low});
  const Id scale = add(Op::select, kF32, {below, constant(kF32, 0), power});
  return add(Op::mul, kF32,
             {add(Op::mul, kF32, {polynomial(r, kSeries), scale}), constant(kF32, 2)});
}

Id CodeBuilder::dnn_gelu(Id x) {
  if (cpu_.onednn >= OneDnn::avx512) {
    const std::string name = "ag_dnn_gelu";
    return call({name, kF32, 1, CallForm::vector, 16, 0, name, gelu_text(name)}, {x});
  }
  const Id r = add(Op::mul, kF32, {x, constant(kF32, 0.70710678)});
  const Id half = add(Op::mul, kF32, {x, constant(kF32, 0.5)});
  const Id exponential = dnn_exp(add(Op::neg, kF32, {add(Op::mul, kF32, {r, r})}));
  return add(Op::fma, kF32, {dnn_erf(r, exponential), half, half});
}

Id CodeBuilder::dnn_gelu_backward_factor(Id x) {
  const Id half = constant(kF32, 0.5);
  const Id r = add(Op::mul, kF32, {x, constant(kF32, 0.70710678)});
  const Id exponential = dnn_exp(add(Op::neg, kF32, {add(Op::mul, kF32, {r, r})}));
  const Id density =
      add(Op::mul, kF32, {add(Op::mul, kF32, {r, constant(kF32, 0x1.20dd74p-1)}), exponential});
  return add(Op::fma, kF32, {dnn_erf(r, exponential), half, add(Op::add, kF32, {density, half})});
}

}  // namespace antegrad::lower
