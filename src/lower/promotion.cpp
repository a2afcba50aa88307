#include "lower/promotion.h"

#include <algorithm>
#include <array>

namespace antegrad::lower {
namespace {

enum class Kind : uint8_t { boolean, integer, floating };

constexpr auto kSigned = std::to_array({DType::i8, DType::i16, DType::i32, DType::i64});

std::optional<Kind> kind_of(DType type) {
  if (type == DType::boolean) return Kind::boolean;
  if (type == DType::u8 || std::ranges::find(kSigned, type) != kSigned.end()) return Kind::integer;
  if (is_floating(type) && byte_size(type) > 1) return Kind::floating;
  return {};
}

DType wider(DType a, DType b) { return byte_size(a) < byte_size(b) ? b : a; }

/// What `lower`, of a lower rank, makes of `higher`.
std::optional<DType> combined(std::optional<DType> higher, std::optional<DType> lower) {
  if (!higher || !lower) return higher ? higher : lower;
  return *kind_of(*higher) < *kind_of(*lower) ? promoted(*higher, *lower) : higher;
}

}  // namespace

std::optional<DType> promoted(DType a, DType b) {
  const auto kind_a = kind_of(a);
  const auto kind_b = kind_of(b);
  if (!kind_a || !kind_b) return {};
  if (*kind_a != *kind_b) return *kind_a < *kind_b ? b : a;
  if (a == b) return a;
  if (*kind_a == Kind::floating) return byte_size(a) == byte_size(b) ? DType::f32 : wider(a, b);
  // Of a signed and an unsigned type of 8 bits.
  if (byte_size(a) == byte_size(b)) return DType::i16;
  return wider(a, b);
}

void CommonType::Part::add(DType other, bool& known) {
  const auto both = type ? promoted(*type, other) : kind_of(other) ? std::optional(other) : type;
  known = known && both && kind_of(other);
  type = both;
}

void CommonType::add_tensor(DType type, bool has_dimensions) {
  (has_dimensions ? tensors_ : scalars_).add(type, known_);
}

void CommonType::add_number(DType kind) { numbers_.add(kind, known_); }

std::optional<DType> CommonType::type() const {
  if (!known_) return {};
  const auto of_tensors = combined(tensors_.type, scalars_.type);
  const bool fraction = numbers_.type == DType::f64;
  if (fraction && (!of_tensors || kind_of(*of_tensors) != Kind::floating)) return {};
  return combined(of_tensors, numbers_.type);
}

}  // namespace antegrad::lower
