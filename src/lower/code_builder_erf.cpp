// Functions that ATen and oneDNN compute themselves, as instructions. tests/exact_kernels/c has the
// same in C.

#include <iterator>
#include <vector>

#include <fmt/format.h>

#include "lower/code_builder.h"

namespace antegrad::lower {
namespace {

constexpr DType kF32 = DType::f32;

/// Abramowitz and Stegun 7.1.26, by falling powers of t.
constexpr double kErf[] = {1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592};

constexpr uint32_t kGeluPolynomials[6][32] = {
#include "lower/gelu_polynomials.inc"
};

constexpr uint32_t kGeluSlopes[7][32] = {
#include "lower/gelu_slopes.inc"
};

/// C of polynomials whose coefficients are those of an interval: types, a table, and functions that
/// pick from a row of it and that add a product.
std::string polynomials_text(const std::string& name, std::span<const uint32_t[32]> table) {
  std::string rows;
  for (const auto& row : table) {
    rows += "{";
    for (const uint32_t bits : row) rows += fmt::format("{:#x},", bits);
    rows += "},";
  }
  return fmt::format(
      R"(typedef int {0}_i __attribute__((vector_size(64)));
typedef float {0}_f __attribute__((vector_size(64)));
static const unsigned {0}_table[{1}][32] __attribute__((aligned(64))) = {{{2}}};
static inline {0}_f {0}_pick(int d, {0}_i k) {{
#ifdef __clang__
  {0}_i r;
  for (int i = 0; i < 16; i++) r[i] = (int){0}_table[d][k[i] & 31];
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
static inline {0}_i {0}_bounded({0}_i k, int low, int high) {{
  const {0}_i least = ({0}_i){{0}} + low, most = ({0}_i){{0}} + high;
#if defined(__AVX512F__) && !defined(__clang__)
  k = __builtin_ia32_pmaxsd512_mask(k, least, k, (unsigned short)-1);
  return __builtin_ia32_pminsd512_mask(k, most, k, (unsigned short)-1);
#else
  k = (k & (k > least)) | (least & ~(k > least));
  return (k & (k < most)) | (most & ~(k < most));
#endif
}}
)",
      name, table.size(), rows);
}

/// C of oneDNN's gelu for AVX-512: 1 + erf by a polynomial in |x| chosen by its exponent and two
/// bits. Above a limit oneDNN takes the polynomial 1, which makes NaN of infinity; Level::close
/// takes the number 1.
std::string gelu_text(const std::string& name, Level level) {
  const bool close = level == Level::close;
  return polynomials_text(name, kGeluPolynomials) +
         fmt::format(
             R"(static inline {0}_i {0}_limited({0}_f a, {0}_i x, int large) {{
#if defined(__AVX512F__) && !defined(__clang__)
  const {0}_f limit = ({0}_f){{0}} + 0x1.62b9dcp2f;
  const unsigned short above = __builtin_ia32_cmpps512_mask(a, limit, 30, (unsigned short)-1, 4);
  return __builtin_ia32_blendmd_512_mask(x, ({0}_i){{0}} + large, above);
#else
  const {0}_i above = a > 0x1.62b9dcp2f;
  return (large & above) | (x & ~above);
#endif
}}
static inline {0}_f {0}({0}_f x) {{
  const {0}_f a = ({0}_f)(({0}_i)x & 0x7fffffff);
  {0}_i k = {0}_bounded((({0}_i)a + (int)0xc21fffffu) >> 21, 1, 24);
  {1}
  {0}_f p = {0}_pick(5, k);
  p = {0}_fma(p, a, {0}_pick(4, k));
  p = {0}_fma(p, a, {0}_pick(3, k));
  p = {0}_fma(p, a, {0}_pick(2, k));
  p = {0}_fma(p, a, {0}_pick(1, k));
  p = {0}_fma(p, a, {0}_pick(0, k));
  {2}
  const {0}_i sign = ({0}_i)x & (int)0x80000000;
  const {0}_f twice = ({0}_f)(({0}_i)p ^ sign) + 1.0f;
  return {3};
}})",
             name, close ? "" : fmt::format("k = {}_limited(a, k, 23);", name),
             close ? fmt::format("p = ({0}_f){0}_limited(a, ({0}_i)p, 0x3f800000);", name) : "",
             close ? "x * (twice * 0.5f)"  // the other one overflows
                   : "x * twice * 0.5f");
}

/// C of the derivative of gelu, by polynomials of scripts/gelu_slopes. NaN and infinities give NaN,
/// as its formula does.
std::string gelu_slope_text(const std::string& name) {
  return polynomials_text(name, kGeluSlopes) + fmt::format(R"(static inline {0}_f {0}({0}_f x) {{
  const {0}_f a = ({0}_f)(({0}_i)x & 0x7fffffff);
  const {0}_i k = {0}_bounded(({0}_i)a >> 21, 487, 518);
  const {0}_f t = a - ({0}_f)(k << 21);
  {0}_f p = {0}_pick(6, k);
  p = {0}_fma(p, t, {0}_pick(5, k));
  p = {0}_fma(p, t, {0}_pick(4, k));
  p = {0}_fma(p, t, {0}_pick(3, k));
  p = {0}_fma(p, t, {0}_pick(2, k));
  p = {0}_fma(p, t, {0}_pick(1, k));
  p = {0}_fma(p, t, {0}_pick(0, k));
  const {0}_i sign = ({0}_i)x & (int)0x80000000;
  return ({0}_f)(({0}_i)p ^ sign) + 0.5f;
}})",
                                                           name);
}

}  // namespace

Id CodeBuilder::polynomial(Id x, std::span<const double> coefficients) {
  Id value = constant(kF32, coefficients.front());
  for (const double coefficient : coefficients.subspan(1)) {
    value = add(Op::fma, kF32, {value, x, constant(kF32, coefficient)});
  }
  return value;
}

Id CodeBuilder::whole(uint32_t bits) { return add({Op::constant, DType::i32, {}, bits, -1}); }

Id CodeBuilder::power_of_two(Id exponent) {
  const Id biased = add(Op::add, DType::i32, {exponent, whole(127)});
  return add(Op::bitcast, kF32, {add(Op::shl, DType::i32, {biased, whole(23)})});
}

// Two factors, so that results may be denormal; the first product is exact.
Id CodeBuilder::scaled(Id x, Id n) {
  if (cpu_.capability == Capability::avx512) return add(Op::scale, kF32, {x, n});
  const Id exponent = add(Op::cast, DType::i32, {n});
  const Id half = add(Op::shr, DType::i32, {exponent, whole(1)});
  const Id rest = add(Op::sub, DType::i32, {exponent, half});
  for (const Id factor : {half, rest}) x = add(Op::mul, kF32, {x, power_of_two(factor)});
  return x;
}

Id CodeBuilder::flip_sign(Id a, Id b) {
  const Id sign = whole(0x80000000);
  const Id other = add(Op::bit_and, DType::i32, {add(Op::bitcast, DType::i32, {b}), sign});
  const Id bits = add(Op::bit_xor, DType::i32, {add(Op::bitcast, DType::i32, {a}), other});
  return add(Op::bitcast, kF32, {bits});
}

// 1 - exponential * t * p(t), with the sign of x; t = 1 / (1 + 0.3275911 |x|). `exponential` is so
// many times as large as `given`; powers of two and signs round nothing, wherever they are put.
Id CodeBuilder::dnn_erf(Id x, Id given, double times) {
  const Id one = constant(kF32, 1);
  const Id size = add(Op::abs, kF32, {x});
  const Id t =
      add(Op::div, kF32, {one, add(Op::fma, kF32, {constant(kF32, 0.3275911), size, one})});
  std::vector<double> series;
  for (const double coefficient : kErf) series.push_back(-times * coefficient);
  const Id scaled = add(Op::mul, kF32, {given, t});
  return flip_sign(add(Op::fma, kF32, {scaled, polynomial(t, series), one}), x);
}

// Sleef_expf8_u10 and Sleef_expf16_u10, without a call. A bound that NaN passes stands for the
// choice of 0 or infinity at the end.
Id CodeBuilder::vector_exp(Id x) {
  constexpr double kSeries[] = {0.000198527617612853646278381, 0.00139304355252534151077271,
                                0.00833336077630519866943359,  0.0416664853692054748535156,
                                0.166666671633720397949219,    0.5};
  const Id one = constant(kF32, 1);
  x = add(Op::min, kF32, {constant(kF32, 104), x});
  x = add(Op::max, kF32, {constant(kF32, -110), x});
  const Id n = add(Op::round, kF32, {add(Op::mul, kF32, {x, constant(kF32, 1.4426950408889634)})});
  Id r = add(Op::fma, kF32, {n, constant(kF32, -0.693145751953125), x});
  r = add(Op::fma, kF32, {n, constant(kF32, -1.428606765330187045e-06), r});
  const Id series = add(Op::fma, kF32, {add(Op::mul, kF32, {r, r}), polynomial(r, kSeries), r});
  return scaled(add(Op::add, kF32, {one, series}), n);
}

// Vectorized<float>::erf.
Id CodeBuilder::vector_erf(Id x, const Site& site) {
  const Id square = add(Op::mul, kF32, {x, x});
  return dnn_erf(x, library("vec_exp", {add(Op::neg, kF32, {square})}, site), 1);
}

// Half of the exponential of a number that is not positive. Multiplies, then adds: two roundings
// before the floor. Below the bound the power is 2^-127, which is 0.
Id CodeBuilder::half_dnn_exp(Id x) {
  constexpr double kSeries[] = {0.00828929059, 0.0418978221, 0.166676521,
                                0.499991506,   0.999999701,  1};
  const Id bounded = add(Op::max, kF32, {x, constant(kF32, -87.3365478515625)});
  const Id product = add(Op::mul, kF32, {bounded, constant(kF32, 1.44269502162933349609375)});
  const Id n = add(Op::floor, kF32, {add(Op::add, kF32, {product, constant(kF32, 0.5)})});
  const Id r = add(Op::fma, kF32, {n, constant(kF32, -0.693147182464599609375), bounded});
  const Id before = add(Op::sub, kF32, {n, constant(kF32, 1)});
  return add(Op::mul, kF32,
             {polynomial(r, kSeries), power_of_two(add(Op::cast, DType::i32, {before}))});
}

Id CodeBuilder::dnn_gelu(Id x) {
  if (cpu_.onednn >= OneDnn::avx512) {
    const std::string name = level_ == Level::close ? "ag_close_gelu" : "ag_dnn_gelu";
    return call({name, kF32, 1, CallForm::vector, 16, 0, name, gelu_text(name, level_)}, {x});
  }
  const Id r = add(Op::mul, kF32, {x, constant(kF32, 0.70710678)});
  const Id half = add(Op::mul, kF32, {x, constant(kF32, 0.5)});
  const Id exponential = half_dnn_exp(add(Op::neg, kF32, {add(Op::mul, kF32, {r, r})}));
  const Id value = add(Op::fma, kF32, {dnn_erf(r, exponential, 2), half, half});
  if (level_ == Level::exact) return value;
  const auto where = [&](Op op, Id a, double b, Id then, Id otherwise) {
    const Id holds = add(op, DType::boolean, {a, constant(kF32, b)});
    return add(Op::select, kF32, {holds, then, otherwise});
  };
  const Id zero = add(Op::mul, kF32, {x, constant(kF32, 0)});  // with the sign of x
  return where(Op::gt, x, 10, x, where(Op::eq, value, 0, zero, value));
}

Id CodeBuilder::dnn_gelu_backward_factor(Id x) {
  if (level_ == Level::close && cpu_.capability == Capability::avx512) {
    const std::string name = "ag_gelu_slope";
    return call({name, kF32, 1, CallForm::vector, 16, 0, name, gelu_slope_text(name)}, {x});
  }
  const Id half = constant(kF32, 0.5);
  const Id r = add(Op::mul, kF32, {x, constant(kF32, 0.70710678)});
  const Id exponential = half_dnn_exp(add(Op::neg, kF32, {add(Op::mul, kF32, {r, r})}));
  const Id density =
      add(Op::mul, kF32, {add(Op::mul, kF32, {r, constant(kF32, 0x1.20dd74p0)}), exponential});
  return add(Op::fma, kF32,
             {dnn_erf(r, exponential, 2), half, add(Op::add, kF32, {density, half})});
}

}  // namespace antegrad::lower
