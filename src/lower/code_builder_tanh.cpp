// Sleef's tanh of float32, as instructions.

#include "lower/code_builder.h"

namespace antegrad::lower {
namespace {

/// A number of twice the digits of f32: high - low, where low is what rounding added to high.
struct Pair {
  Id high;
  Id low = -1;  ///< -1 stands for 0
};

/// On single numbers and on pairs. Rounding in low parts is Sleef's, so no step may be changed.
class Arithmetic {
 public:
  explicit Arithmetic(CodeBuilder& code) : code_(code) {}

  Id number(double value) { return code_.constant(DType::f32, value); }
  Id plus(Id a, Id b) { return code_.add(Op::add, DType::f32, {a, b}); }
  Id minus(Id a, Id b) { return code_.add(Op::sub, DType::f32, {a, b}); }
  Id times(Id a, Id b) { return code_.add(Op::mul, DType::f32, {a, b}); }
  Id over(Id a, Id b) { return code_.add(Op::div, DType::f32, {a, b}); }
  Id fma(Id a, Id b, Id c) { return code_.add(Op::fma, DType::f32, {a, b, c}); }
  Id opposite(Id a) { return code_.add(Op::neg, DType::f32, {a}); }

  /// a + b, where a is not smaller than b.
  Pair sum(Pair a, Pair b) {
    const Id high = plus(a.high, b.high);
    const Id low = a.low < 0 ? b.low : plus(a.low, b.low);
    return {high, plus(minus(minus(high, a.high), b.high), low)};
  }
  /// a * b; `opposite` is -a.high.
  Pair product(Pair a, Id opposite, Pair b) {
    const Id high = times(a.high, b.high);
    const Id low = fma(a.low, b.high, fma(opposite, b.high, high));
    return {high, b.low < 0 ? low : fma(a.high, b.low, low)};
  }

 private:
  CodeBuilder& code_;
};

}  // namespace

// Sleef_tanhf8_u10 and Sleef_tanhf16_u10: (d - 1 / d) / (d + 1 / d), where d = e^|x|. Differences
// to them change no bit: sums of pairs know the larger operand, the product with the first part of
// ln 2 is exact, and so is the number that remains.
Id CodeBuilder::vector_tanh(Id x) {
  Arithmetic f32(*this);
  const Id one = f32.number(1);
  const Id size = add(Op::abs, DType::f32, {x});
  const Id n = add(Op::round, DType::f32, {f32.times(size, f32.number(1.4426950408889634))});

  const Id rest = f32.fma(n, f32.number(-0.693145751953125), size);
  const Id step = f32.times(n, f32.number(-1.428606765330187045e-06));
  const Id r = f32.plus(rest, step);
  const Pair s{r, f32.minus(f32.minus(r, rest), step)};
  const Id opposite = f32.opposite(r);

  // e^s = 1 + (s + s^2 (1/2 + s (1/6 + s (...))))
  constexpr double kSeries[] = {0.1980960224e-3, 0.1394256484e-2, 0.8333456703e-2, 0.4166637361e-1};
  Pair t = f32.product(s, opposite, {polynomial(r, kSeries)});
  t = f32.sum({f32.number(0.166666659414234244790680580464)}, t);
  t = f32.sum({f32.number(0.5)}, f32.product(s, opposite, t));
  const Id square = f32.times(r, r);
  const Pair squared{square, f32.fma(f32.plus(r, r), s.low, f32.fma(opposite, r, square))};
  t = f32.sum(s, f32.product(squared, f32.times(opposite, r), t));
  t = f32.sum({one}, t);

  const Id power = power_of_two(add(Op::cast, DType::i32, {n}));
  const Id d = f32.times(t.high, power);
  const Id low = f32.times(f32.opposite(t.low), power);
  // 1 / d, all of it negative.
  const Id inverse = f32.over(f32.number(-1), d);
  const Id inverse_low = f32.times(inverse, f32.fma(low, inverse, f32.fma(inverse, d, one)));
  const Id above = f32.plus(d, inverse);
  const Id above_low = f32.plus(f32.plus(f32.plus(f32.minus(d, above), inverse), low), inverse_low);
  const Id below = f32.minus(d, inverse);
  const Id below_low =
      f32.minus(f32.plus(f32.minus(f32.minus(d, below), inverse), low), inverse_low);

  const Id share = f32.over(one, below);
  const Id minus_share = f32.opposite(share);
  const Id quotient = f32.times(above, share);
  const Id error = f32.fma(above_low, share, f32.fma(above, share, f32.opposite(quotient)));
  const Id missing = f32.fma(below_low, minus_share, f32.fma(below, minus_share, one));
  const Id value = f32.plus(quotient, f32.fma(quotient, missing, error));

  const Id large = add(Op::gt, DType::boolean, {size, f32.number(8.664339742)});
  return flip_sign(add(Op::select, DType::f32, {large, one, value}), x);
}

}  // namespace antegrad::lower
