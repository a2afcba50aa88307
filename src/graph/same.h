#pragma once

/// \file
/// Equality of the records that make up graphs and attributes.

#include <algorithm>
#include <bit>
#include <complex>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "graph/members.h"

namespace antegrad {

/// Whether two values are equal: numbers, texts, ids, and whatever is made of those. Floats compare
/// by bits.
template <class T>
bool same(const T& a, const std::type_identity_t<T>& b) {
  const auto each = [](const auto& x, const auto& y) { return same(x, y); };
  if constexpr (std::is_same_v<T, double>) {
    return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
  } else if constexpr (std::is_same_v<T, std::complex<double>>) {
    return same(a.real(), b.real()) && same(a.imag(), b.imag());
  } else if constexpr (Record<T>) {
    return std::apply([&](auto... member) { return (each(a.*member, b.*member) && ...); },
                      members_of(&a));
  } else if constexpr (requires { std::variant_size<T>::value; }) {
    return a.index() == b.index() &&
           std::visit(
               [&](auto& held) { return each(held, std::get<std::decay_t<decltype(held)>>(b)); },
               a);
  } else if constexpr (requires { typename T::allocator_type; } &&
                       !std::is_same_v<T, std::string> && !std::is_same_v<T, std::vector<bool>>) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), each);
  } else {
    return a == b;
  }
}

}  // namespace antegrad
