#include "lower/scalar.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include <antegrad/error.h>

namespace antegrad::lower {
namespace {

template <class T>
using Unsigned = std::make_unsigned_t<T>;

/// f(T()) with the C++ type of `type`; halves have none.
template <class F>
auto with_type(DType type, F&& f) {
  switch (type) {
    case DType::f32: return f(float());
    case DType::f64: return f(double());
    case DType::i8: return f(int8_t());
    case DType::i16: return f(int16_t());
    case DType::i32: return f(int32_t());
    case DType::i64: return f(int64_t());
    default: AG_CHECK(type == DType::u8, "a type without arithmetic"); return f(uint8_t());
  }
}

// As the instructions of x86: the second operand where one is NaN or both are zero.
template <class T>
T smaller(T a, T b) {
  return a < b ? a : b;
}
template <class T>
T larger(T a, T b) {
  return a > b ? a : b;
}

template <class T>
uint64_t all_ones_if_nan(T a, T b, T value) {
  constexpr uint64_t kOnes = sizeof(T) == 4 ? 0xffffffff : ~uint64_t{0};
  return std::isnan(a) || std::isnan(b) ? kOnes : to_bits(value);
}

/// As the instruction of AVX-512.
template <class T>
T scaled(T a, T b) {
  if (std::isnan(a)) return a + a;
  if (std::isnan(b)) return b + b;
  if (std::isinf(b)) return a * (b > 0 ? b : T{0});
  constexpr T kMost = 5000;  // beyond the exponents of all numbers
  return std::ldexp(a, static_cast<int>(std::floor(std::clamp(b, -kMost, kMost))));
}

template <class T>
uint64_t floating(Op op, T a, T b, T c) {
  constexpr uint64_t kSign = uint64_t{1} << (sizeof(T) * 8 - 1);
  switch (op) {
    case Op::fma: return to_bits(std::fma(a, b, c));
    case Op::scale: return to_bits(scaled(a, b));
    case Op::add: return to_bits(a + b);
    case Op::sub: return to_bits(a - b);
    case Op::mul: return to_bits(a * b);
    case Op::div: return to_bits(a / b);
    case Op::min: return to_bits(smaller(a, b));
    case Op::max: return to_bits(larger(a, b));
    case Op::minimum: return all_ones_if_nan(a, b, smaller(a, b));
    case Op::maximum: return all_ones_if_nan(a, b, larger(a, b));
    case Op::neg: return to_bits(a) ^ kSign;
    case Op::abs: return to_bits(a) & ~kSign;
    case Op::sqrt: return to_bits(std::sqrt(a));
    case Op::floor: return to_bits(std::floor(a));
    case Op::ceil: return to_bits(std::ceil(a));
    case Op::trunc: return to_bits(std::trunc(a));
    case Op::round: return to_bits(std::nearbyint(a));
    default: AG_CHECK(false, "an operation on floating-point numbers"); return 0;
  }
}

template <class T>
uint64_t integral(Op op, T a, T b) {
  using U = Unsigned<T>;
  const auto wide = [](T value) { return static_cast<uint64_t>(static_cast<U>(value)); };
  const auto narrow = [](uint64_t value) { return to_bits<U>(static_cast<U>(value)); };
  const int count = static_cast<int>(wide(b) & (sizeof(T) * 8 - 1));
  switch (op) {
    case Op::add: return narrow(wide(a) + wide(b));
    case Op::sub: return narrow(wide(a) - wide(b));
    case Op::mul: return narrow(wide(a) * wide(b));
    case Op::min: return to_bits(smaller(a, b));
    case Op::max: return to_bits(larger(a, b));
    case Op::neg: return narrow(0 - wide(a));
    case Op::bit_and: return narrow(wide(a) & wide(b));
    case Op::bit_or: return narrow(wide(a) | wide(b));
    case Op::bit_xor: return narrow(wide(a) ^ wide(b));
    case Op::bit_not: return narrow(~wide(a));
    case Op::shl: return narrow(wide(a) << count);
    case Op::shr: return to_bits(static_cast<T>(a >> count));
    default: AG_CHECK(false, "an operation on integers"); return 0;
  }
}

uint64_t boolean(Op op, uint64_t a, uint64_t b) {
  switch (op) {
    case Op::bit_and: return a & b;
    case Op::bit_or: return a | b;
    case Op::bit_xor: return a ^ b;
    default: AG_CHECK(op == Op::bit_not, "an operation on bools"); return 1 - a;
  }
}

template <class T>
bool compare(Op op, T a, T b) {
  switch (op) {
    case Op::eq: return a == b;
    case Op::ne: return a != b;
    case Op::lt: return a < b;
    case Op::le: return a <= b;
    case Op::gt: return a > b;
    default: return a >= b;
  }
}

// As cvttps2dq and its kin: the smallest integer for NaN and for what does not fit.
template <class I, class T>
I truncated(T value) {
  constexpr T kEnd = -static_cast<T>(std::numeric_limits<I>::min());
  if (!(value >= -kEnd && value < kEnd)) return std::numeric_limits<I>::min();
  return static_cast<I>(value);
}

template <class To, class From>
uint64_t converted(From value) {
  if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    if constexpr (sizeof(To) == 8) return to_bits(truncated<int64_t>(value));
    return to_bits(static_cast<To>(truncated<int32_t>(value)));
  } else {
    return to_bits(static_cast<To>(value));
  }
}

uint64_t bf16_from(float value, uint64_t nan) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return nan != 0 ? nan : (bits >> 16 | 0x40);
  return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

uint64_t f16_from(float value, uint64_t nan) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000;
  if (std::isnan(value)) return nan != 0 ? nan : (sign | 0x7e00 | (bits >> 13 & 0x1ff));
  const float size = std::fabs(value);
  if (size >= 65520) return sign | 0x7c00;
  if (size < 0x1p-14F) return sign | static_cast<uint32_t>(std::nearbyint(size * 0x1p24F));
  const uint32_t magnitude = bits & 0x7fffffff;
  return sign | ((magnitude + 0xfff + (magnitude >> 13 & 1)) - (112U << 23)) >> 13;
}

float f32_from_f16(uint64_t half) {
  const auto sign = static_cast<uint32_t>(half & 0x8000) << 16;
  const auto exponent = static_cast<uint32_t>(half >> 10 & 31);
  const auto fraction = static_cast<uint32_t>(half & 0x3ff);
  uint32_t bits = 0;
  if (exponent == 31) {
    bits = 0x7f800000 | fraction << 13 | (fraction != 0 ? 0x400000 : 0);
  } else if (exponent == 0) {
    bits = std::bit_cast<uint32_t>(static_cast<float>(fraction) * 0x1p-24F);
  } else {
    bits = (exponent + 112) << 23 | fraction << 13;
  }
  return std::bit_cast<float>(sign | bits);
}

uint64_t cast(DType to, DType from, uint64_t nan, uint64_t value) {
  if (from == DType::bf16) return value << 16;
  if (from == DType::f16) return to_bits(f32_from_f16(value));
  if (to == DType::bf16) return bf16_from(from_bits<float>(value), nan);
  if (to == DType::f16) return f16_from(from_bits<float>(value), nan);
  if (from == DType::boolean) from = DType::u8;
  return with_type(from, [&]<class From>(From) {
    const From source = from_bits<From>(value);
    if (to == DType::boolean) return uint64_t{source != From(0)};
    return with_type(to, [&]<class To>(To) { return converted<To>(source); });
  });
}

}  // namespace

uint64_t evaluate(const Instruction& code, DType from, const uint64_t* operands) {
  if (code.op == Op::cast) return cast(code.type, from, code.bits, operands[0]);
  if (code.op == Op::bitcast) return operands[0];
  if (code.op == Op::select) return operands[0] != 0 ? operands[1] : operands[2];
  const bool binary = code.operands.size() > 1;
  if (from == DType::boolean) return boolean(code.op, operands[0], binary ? operands[1] : 0);
  return with_type(from, [&]<class T>(T) {
    const T a = from_bits<T>(operands[0]);
    const T b = binary ? from_bits<T>(operands[1]) : T();
    if (row_of(code.op).compares) return uint64_t{compare(code.op, a, b)};
    if constexpr (std::is_floating_point_v<T>) {
      const T c = code.operands.size() > 2 ? from_bits<T>(operands[2]) : T();
      return floating(code.op, a, b, c);
    } else {
      return integral(code.op, a, b);
    }
  });
}

uint64_t evaluate(Op op, DType type, uint64_t a, uint64_t b) {
  const uint64_t operands[] = {a, b};
  return evaluate(Instruction{op, type, {0, 1}, 0, -1}, type, operands);
}

uint64_t read_element(DType type, const char* address) {
  uint64_t bits = 0;
  std::memcpy(&bits, address, static_cast<size_t>(byte_size(type)));
  return type == DType::boolean ? uint64_t{bits != 0} : bits;
}

void write_element(DType type, char* address, uint64_t bits) {
  std::memcpy(address, &bits, static_cast<size_t>(byte_size(type)));
}

}  // namespace antegrad::lower
