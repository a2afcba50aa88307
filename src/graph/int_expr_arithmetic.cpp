#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>
#include <optional>

#include <antegrad/error.h>

#include "graph/int_expr_term.h"

namespace antegrad {
namespace {

[[noreturn]] void overflow() {
  throw GraphError(ErrorText{"integer size expressions whose constants fit in 64 bits",
                             "one that overflows", "use smaller sizes"});
}

}  // namespace

int64_t checked_add(int64_t a, int64_t b) {
  int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) overflow();
  return sum;
}

int64_t checked_mul(int64_t a, int64_t b) {
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) overflow();
  return product;
}

void check_divisor(int64_t divisor) {
  if (divisor != 0) return;
  throw GraphError(
      ErrorText{"a divisor other than 0 in an integer size expression", "a division by 0", ""});
}

int64_t floor_quotient(int64_t a, int64_t b) {
  check_divisor(b);
  if (b == -1) return checked_mul(a, -1);
  const int64_t quotient = a / b;
  return quotient - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
}

int64_t floor_remainder(int64_t a, int64_t b) {
  check_divisor(b);
  if (b == -1) return 0;
  const int64_t remainder = a % b;
  return remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder;
}

namespace {

// Sizes have a handful of monomials. The bound stops malicious text from expanding without end.
constexpr size_t kMaxMonomials = 4096;

using Atoms = std::vector<IntExpr>;

// Graded lexicographic: a monomial order, which makes long division terminate.
bool comes_first(const Atoms& a, const Atoms& b) {
  if (a.size() != b.size()) return a.size() > b.size();
  return a < b;
}

Polynomial collected(Polynomial terms) {
  std::ranges::sort(terms,
                    [](const auto& a, const auto& b) { return comes_first(a.atoms, b.atoms); });
  Polynomial result;
  for (auto& term : terms) {
    if (!result.empty() && result.back().atoms == term.atoms) {
      result.back().coefficient = checked_add(result.back().coefficient, term.coefficient);
    } else {
      if (!result.empty() && result.back().coefficient == 0) result.pop_back();
      result.push_back(std::move(term));
    }
  }
  if (!result.empty() && result.back().coefficient == 0) result.pop_back();
  return result;
}

Polynomial sum(Polynomial a, const Polynomial& b) {
  a.insert(a.end(), b.begin(), b.end());
  return collected(std::move(a));
}

Monomial product(const Monomial& a, const Monomial& b) {
  Monomial result{checked_mul(a.coefficient, b.coefficient), {}};
  std::merge(a.atoms.begin(), a.atoms.end(), b.atoms.begin(), b.atoms.end(),
             std::back_inserter(result.atoms));
  return result;
}

Polynomial product(const Polynomial& a, const Polynomial& b) {
  if (a.size() * b.size() > kMaxMonomials) {
    throw GraphError(ErrorText{"an integer size expression of at most 4096 products",
                               "one that expands to more", "use a new symbol for a part of it"});
  }
  Polynomial terms;
  terms.reserve(a.size() * b.size());
  for (const Monomial& left : a) {
    for (const Monomial& right : b) terms.push_back(product(left, right));
  }
  return collected(std::move(terms));
}

/// a / b if the result is a monomial with an integer coefficient.
std::optional<Monomial> quotient(const Monomial& a, const Monomial& b) {
  if (floor_remainder(a.coefficient, b.coefficient) != 0) return std::nullopt;
  if (!std::includes(a.atoms.begin(), a.atoms.end(), b.atoms.begin(), b.atoms.end())) {
    return std::nullopt;
  }
  Monomial result{floor_quotient(a.coefficient, b.coefficient), {}};
  std::set_difference(a.atoms.begin(), a.atoms.end(), b.atoms.begin(), b.atoms.end(),
                      std::back_inserter(result.atoms));
  return result;
}

struct Division {
  Polynomial quotient;
  Polynomial rest;  // a = quotient * b + rest
};

/// Division by one symbolic monomial: extracts the terms that it divides.
Division divide_by_monomial(const Polynomial& a, const Monomial& b) {
  Division result;
  for (const Monomial& term : a) {
    if (auto part = quotient(term, b)) {
      result.quotient.push_back(std::move(*part));
    } else {
      result.rest.push_back(term);
    }
  }
  result.quotient = collected(std::move(result.quotient));
  return result;
}

/// Division by a symbolic sum, which is only useful without remainder.
Division divide_exactly(const Polynomial& a, const Polynomial& b) {
  Division result{{}, a};
  while (!result.rest.empty()) {
    const auto part = quotient(result.rest.front(), b.front());
    if (!part) return {{}, a};
    Polynomial factor{*part};
    result.quotient = sum(std::move(result.quotient), factor);
    factor.front().coefficient = checked_mul(factor.front().coefficient, -1);
    result.rest = sum(std::move(result.rest), product(factor, b));
  }
  return result;
}

Division divide(const Polynomial& a, const Polynomial& b) {
  if (b.size() > 1) return divide_exactly(a, b);
  if (!b.front().atoms.empty()) return divide_by_monomial(a, b.front());
  // Division by a number: extracts the whole part of each coefficient, so that (s0 - 1) // 2 + 1
  // and (s0 + 1) // 2 become equal.
  const int64_t divisor = b.front().coefficient;
  Division result;
  for (const Monomial& term : a) {
    const int64_t whole = floor_quotient(term.coefficient, divisor);
    const int64_t rest = floor_remainder(term.coefficient, divisor);
    if (whole != 0) result.quotient.push_back({whole, term.atoms});
    if (rest != 0) result.rest.push_back({rest, term.atoms});
  }
  return result;
}

/// Divides a and the number b by their greatest common divisor, and returns it.
int64_t reduce(Polynomial& a, Polynomial& b) {
  if (b.size() != 1 || !b.front().atoms.empty()) return 1;
  int64_t divisor = b.front().coefficient;
  if (divisor == std::numeric_limits<int64_t>::min()) return 1;  // has no absolute value
  for (const auto& term : a) divisor = std::gcd(divisor, term.coefficient);
  for (auto& term : a) term.coefficient /= divisor;
  b.front().coefficient /= divisor;
  return divisor;
}

}  // namespace

Polynomial IntExpr::Term::polynomial(const IntExpr& expr) {
  Polynomial result;
  if (expr.is_constant()) {
    if (expr.value_ != 0) result.push_back({expr.value_, {}});
    return result;
  }
  const auto monomial = [](const IntExpr& term) -> Monomial {
    if (term.is_constant()) return {term.value_, {}};
    if (term.kind() != Kind::mul) return {1, {term}};
    const bool scaled = term.operands().front().is_constant();
    return {scaled ? term.operands().front().value_ : 1,
            {term.operands().begin() + (scaled ? 1 : 0), term.operands().end()}};
  };
  if (expr.kind() != Kind::add) return {monomial(expr)};
  for (const IntExpr& term : expr.operands()) result.push_back(monomial(term));
  return result;
}

IntExpr IntExpr::Term::expression(Polynomial polynomial) {
  std::vector<IntExpr> terms;
  terms.reserve(polynomial.size());
  for (Monomial& monomial : polynomial) {
    if (monomial.atoms.empty()) {
      terms.emplace_back(monomial.coefficient);
    } else if (monomial.coefficient == 1 && monomial.atoms.size() == 1) {
      terms.push_back(std::move(monomial.atoms.front()));
    } else {
      std::vector<IntExpr> factors = std::move(monomial.atoms);
      if (monomial.coefficient != 1) factors.insert(factors.begin(), monomial.coefficient);
      terms.push_back(make(Kind::mul, std::move(factors)));
    }
  }
  if (terms.empty()) return 0;
  if (terms.size() == 1) return terms.front();
  return make(Kind::add, std::move(terms));
}

IntExpr operator+(const IntExpr& a, const IntExpr& b) {
  if (a.is_constant() && b.is_constant()) return checked_add(a.value_, b.value_);
  return IntExpr::Term::expression(sum(IntExpr::Term::polynomial(a), IntExpr::Term::polynomial(b)));
}

IntExpr operator-(const IntExpr& a, const IntExpr& b) {
  if (a.is_constant() && b.is_constant()) {
    int64_t difference = 0;
    if (__builtin_sub_overflow(a.value_, b.value_, &difference)) overflow();
    return difference;
  }
  return a + b * IntExpr(-1);
}

IntExpr operator*(const IntExpr& a, const IntExpr& b) {
  if (a.is_constant() && b.is_constant()) return checked_mul(a.value_, b.value_);
  return IntExpr::Term::expression(
      product(IntExpr::Term::polynomial(a), IntExpr::Term::polynomial(b)));
}

IntExpr IntExpr::floor_div(const IntExpr& a, const IntExpr& b) {
  if (a.is_constant() && b.is_constant()) return floor_quotient(a.value_, b.value_);
  if (b.is_constant()) check_divisor(b.value_);
  Polynomial denominator = Term::polynomial(b);
  auto [whole, rest] = divide(Term::polynomial(a), denominator);
  reduce(rest, denominator);
  IntExpr quotient = Term::expression(std::move(whole));
  if (rest.empty()) return quotient;
  const IntExpr numerator = Term::expression(std::move(rest));
  const IntExpr divisor = Term::expression(std::move(denominator));
  if (numerator.is_constant() && divisor.is_constant()) {
    return quotient + floor_quotient(numerator.value_, divisor.value_);
  }
  // (x // c) // d is x // (c * d) for numbers c, d above 0.
  if (numerator.kind() == Kind::floor_div && divisor.is_constant() && divisor.value_ > 0) {
    const IntExpr& inner = numerator.operands()[1];
    if (inner.is_constant() && inner.value_ > 0) {
      return quotient + floor_div(numerator.operands()[0], inner * divisor);
    }
  }
  return quotient + make(Kind::floor_div, {numerator, divisor});
}

IntExpr IntExpr::mod(const IntExpr& a, const IntExpr& b) {
  if (a.is_constant() && b.is_constant()) return floor_remainder(a.value_, b.value_);
  if (b.is_constant()) check_divisor(b.value_);
  Polynomial denominator = Term::polynomial(b);
  auto [whole, rest] = divide(Term::polynomial(a), denominator);
  if (rest.empty()) return 0;
  const int64_t scale = reduce(rest, denominator);
  const IntExpr numerator = Term::expression(std::move(rest));
  const IntExpr divisor = Term::expression(std::move(denominator));
  if (numerator.is_constant() && divisor.is_constant()) {
    return IntExpr(scale) * IntExpr(floor_remainder(numerator.value_, divisor.value_));
  }
  return IntExpr(scale) * make(Kind::mod, {numerator, divisor});
}

IntExpr IntExpr::min(const IntExpr& a, const IntExpr& b) { return Term::extremum(Kind::min, a, b); }
IntExpr IntExpr::max(const IntExpr& a, const IntExpr& b) { return Term::extremum(Kind::max, a, b); }

IntExpr IntExpr::Term::extremum(Kind kind, const IntExpr& a, const IntExpr& b) {
  if (a.is_constant() && b.is_constant()) {
    return kind == Kind::min ? std::min(a.value_, b.value_) : std::max(a.value_, b.value_);
  }
  std::vector<IntExpr> kept;
  const auto offer = [kind, &kept](const IntExpr& next) {
    for (IntExpr& other : kept) {
      const IntExpr distance = next - other;
      if (!distance.is_constant()) continue;
      if ((kind == Kind::min) == (distance.value_ < 0)) other = next;
      return;
    }
    kept.push_back(next);
  };
  for (const IntExpr* side : {&a, &b}) {
    if (side->kind() == kind) {
      for (const IntExpr& operand : side->operands()) offer(operand);
    } else {
      offer(*side);
    }
  }
  if (kept.size() == 1) return kept.front();
  // Constants come last, as is usual in text.
  std::ranges::sort(kept, [](const IntExpr& x, const IntExpr& y) {
    return x.is_constant() == y.is_constant() ? x < y : y.is_constant();
  });
  return make(kind, std::move(kept));
}

}  // namespace antegrad
