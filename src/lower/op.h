#pragma once

/// \file
/// The operations of the loop IR and their table: name, operands, element types.

#include <cstdint>
#include <optional>
#include <string_view>

namespace antegrad::lower {

/// docs/loop-ir.md defines the result of each to the bit.
enum class Op : uint8_t {
  constant,     ///< `bits`
  number,       ///< the argument `index`
  index,        ///< i64: the index of dimension `index`
  load,         ///< from buffer `index`
  gather,       ///< from buffer `index`, at an i64 operand
  store,        ///< to buffer `index`
  accumulator,  ///< the partial result of a fold, which starts as `bits`
  result,       ///< a result of a fold, for later stages
  call,         ///< of function `index`
  path,         ///< body in blocks of `bits` elements, tail in the rest, over `index` dimensions
  cast,         ///< to `type`; `bits` is what NaN becomes in bf16 and f16 (0: its upper bits)
  bitcast,
  select,
  fma,
  scale,  ///< times 2 to the power of a whole number
  add,
  sub,
  mul,
  div,
  min,
  max,
  minimum,
  maximum,
  neg,
  abs,
  sqrt,
  floor,
  ceil,
  trunc,
  round,
  bit_and,
  bit_or,
  bit_xor,
  bit_not,
  shl,
  shr,
  eq,
  ne,
  lt,
  le,
  gt,
  ge,
};

/// Which element types an operation has, as a set.
enum Types : uint8_t {
  kFloats = 1,  ///< f32, f64
  kHalves = 2,  ///< f16, bf16
  kInts = 4,    ///< i8, i16, i32, i64, u8
  kBool = 8,
  kNumbers = kFloats | kInts,
  kAllTypes = 15,
};

/// What the text form and the verifier need to know of an operation.
struct OpRow {
  Op op;
  std::string_view name;
  int8_t operands;  ///< -1: any number
  uint8_t types;    ///< of operands, where they have one type; otherwise of the result
  bool plain;       ///< the operands' type is that of the result, and no field but type is used
  bool compares;    ///< two operands of one type, and a bool
};

const OpRow& row_of(Op op);
std::optional<Op> op_from_name(std::string_view name);

}  // namespace antegrad::lower
