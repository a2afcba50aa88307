#pragma once

/// \file
/// Internals of IntExpr, shared by the three files that implement it. Not to be included
/// elsewhere.

#include <vector>

#include "graph/int_expr.h"

namespace antegrad {

// Canonical form. A compound expression is one of
//   add         monomials in falling degree, a constant last; at least two
//   mul         a constant other than 0 and 1 first, then atoms in rising order; at least two
//   floor_div, mod   numerator and denominator, what divides evenly taken out
//   min, max    operands in rising order, a number last, no two a known distance apart
// Symbols and the last four are atoms: sums and products are polynomials over them, always
// expanded. A divisor is taken not to be 0, so s0 // s0 is 1.
struct Monomial {
  int64_t coefficient = 0;
  std::vector<IntExpr> atoms;  // rising; an atom appears twice for its square; empty: a constant
};
using Polynomial = std::vector<Monomial>;  // falling degree, no zero coefficient

struct IntExpr::Term {
  Kind kind = Kind::constant;
  SymbolId symbol = -1;
  std::vector<IntExpr> operands;

  static Polynomial polynomial(const IntExpr& expr);
  static IntExpr expression(Polynomial polynomial);
  static IntExpr extremum(Kind kind, const IntExpr& a, const IntExpr& b);
};

/// Arithmetic on constants. Throws GraphError on overflow and on division by 0.
int64_t checked_add(int64_t a, int64_t b);
int64_t checked_mul(int64_t a, int64_t b);
/// Rounded towards minus infinity.
int64_t floor_quotient(int64_t a, int64_t b);
/// With the sign of the divisor.
int64_t floor_remainder(int64_t a, int64_t b);
void check_divisor(int64_t divisor);

}  // namespace antegrad
