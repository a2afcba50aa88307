#pragma once

/// \file
/// The common shape rules of elementwise operators, by name.

#include "shapes/layout.h"

namespace antegrad::shapes {

inline constexpr Function unary = elementwise<Promotion::kSame, 0>;
inline constexpr Function unary_float = elementwise<Promotion::kFloat, 0>;
inline constexpr Function unary_bool = elementwise<Promotion::kSameBool, 0>;
inline constexpr Function binary = elementwise<Promotion::kCommon, 0, 1>;
inline constexpr Function same_binary = elementwise<Promotion::kSame, 0, 1>;
inline constexpr Function binary_float = elementwise<Promotion::kFloat, 0, 1>;
inline constexpr Function compare = elementwise<Promotion::kBool, 0, 1>;
inline constexpr Function reversed = elementwise<Promotion::kCommon, 1, 0>;
inline constexpr Function ternary = elementwise<Promotion::kCommon, 0, 1, 2>;

inline bool is_real(at::ScalarType dtype) { return !c10::isComplexType(dtype); }
inline bool is_integral(at::ScalarType dtype) {
  return c10::isIntegralType(dtype, /*includeBool=*/true);
}
inline bool is_integer(at::ScalarType dtype) {
  return c10::isIntegralType(dtype, /*includeBool=*/false);
}
inline bool is_floating(at::ScalarType dtype) { return c10::isFloatingType(dtype); }
inline bool is_number(at::ScalarType dtype) { return dtype != at::kBool; }

inline constexpr Function real_unary = only<unary, is_real>;
inline constexpr Function floating_unary = only<unary, is_floating>;
inline constexpr Function floating_binary = only<binary, is_floating>;
inline constexpr Function integral_binary = only<binary, is_integral>;
template <size_t A, size_t B>
inline constexpr Function floating_binary_of =
    only<elementwise<Promotion::kSame, A, B>, is_floating>;
inline constexpr Function shift = only<binary, is_integer>;

}  // namespace antegrad::shapes
