#pragma once

/// \file
/// Integer size expressions: a number, or an expression over named symbols (s0, s1, ...).
///
/// Sizes, strides and integer attributes are IntExpr everywhere, so that one program can serve
/// many shapes. A constant costs no allocation. Expressions are immutable and shared. They are
/// kept simplified: constants folded, neutral elements dropped, sums and products flattened and
/// ordered. So equal expressions that were built differently compare equal in the cases that sizes
/// need.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace antegrad {

/// Number of a symbol in Graph::symbols.
using SymbolId = int32_t;

class IntExpr {
 public:
  enum class Kind : uint8_t { constant, symbol, add, mul, floor_div, mod, min, max };

  /// The constant `value`. Implicit, so that numbers are expressions.
  IntExpr(int64_t value = 0) : value_(value) {}
  static IntExpr symbol(SymbolId id);

  bool is_constant() const { return term_ == nullptr; }
  /// The number. Throws InternalError if symbolic: call is_constant() or evaluate() first.
  int64_t constant() const;
  std::optional<int64_t> maybe_constant() const;
  Kind kind() const;
  /// Operands of a compound expression; empty otherwise.
  const std::vector<IntExpr>& operands() const;
  /// Number of the symbol. Only for Kind::symbol.
  SymbolId symbol_id() const;

  /// The value of the expression if symbol i has the value `symbols[i]`.
  int64_t evaluate(const std::vector<int64_t>& symbols) const;

  friend IntExpr operator+(const IntExpr& a, const IntExpr& b);
  friend IntExpr operator-(const IntExpr& a, const IntExpr& b);
  friend IntExpr operator*(const IntExpr& a, const IntExpr& b);
  /// Quotient rounded towards minus infinity. Division by the constant 0 throws GraphError.
  static IntExpr floor_div(const IntExpr& a, const IntExpr& b);
  /// Remainder with the sign of the divisor.
  static IntExpr mod(const IntExpr& a, const IntExpr& b);
  static IntExpr min(const IntExpr& a, const IntExpr& b);
  static IntExpr max(const IntExpr& a, const IntExpr& b);

  friend bool operator==(const IntExpr& a, const IntExpr& b);
  /// A total order, for canonical sums and for maps. No arithmetic meaning.
  friend bool operator<(const IntExpr& a, const IntExpr& b);

 private:
  struct Term;
  int64_t value_ = 0;
  std::shared_ptr<const Term> term_;  // null for a constant
  static IntExpr make(Kind kind, std::vector<IntExpr> operands);
};

/// Hash that agrees with operator==; the same in each process.
uint64_t hash_value(const IntExpr& expr);

/// "12", "s0", "(4*s0 + 1)", "(s0 // 2)", "(s0 % 8)", "min(s0, 4)". parse_int_expr reads it.
std::string to_string(const IntExpr& expr);
/// Reads one expression from the front of `text` and removes it. Throws GraphError and leaves
/// `text` at the place of the error.
IntExpr parse_int_expr(std::string_view& text);

using Shape = std::vector<IntExpr>;

}  // namespace antegrad
