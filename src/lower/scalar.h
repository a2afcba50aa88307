#pragma once

/// \file
/// The operations of the loop IR on one element, as their definition: the interpreter runs them,
/// and generated code is compared with them. Values are bits in the low bytes of a word.

#include <bit>
#include <cstdint>
#include <type_traits>

#include "lower/kernel.h"

namespace antegrad::lower {

template <class T>
T from_bits(uint64_t bits) {
  if constexpr (std::is_same_v<T, float>) {
    return std::bit_cast<float>(static_cast<uint32_t>(bits));
  } else if constexpr (std::is_same_v<T, double>) {
    return std::bit_cast<double>(bits);
  } else {
    return static_cast<T>(bits);
  }
}

template <class T>
uint64_t to_bits(T value) {
  if constexpr (std::is_same_v<T, float>) {
    return std::bit_cast<uint32_t>(value);
  } else if constexpr (std::is_same_v<T, double>) {
    return std::bit_cast<uint64_t>(value);
  } else {
    return static_cast<std::make_unsigned_t<T>>(value);
  }
}

/// The result of an operation that only depends on its operands: everything from Op::cast on.
/// `from` is the operands' type.
uint64_t evaluate(const Instruction& code, DType from, const uint64_t* operands);

/// The result of a binary operation of `plain` form on `type`.
uint64_t evaluate(Op op, DType type, uint64_t a, uint64_t b);

/// The element at `address`; a bool is 1 for any byte but 0.
uint64_t read_element(DType type, const char* address);
void write_element(DType type, char* address, uint64_t bits);

}  // namespace antegrad::lower
