#include "graph/int_expr.h"

#include <algorithm>
#include <utility>

#include <antegrad/error.h>

#include "graph/hash_bits.h"
#include "graph/int_expr_term.h"

namespace antegrad {

IntExpr IntExpr::symbol(SymbolId id) {
  auto term = std::make_shared<Term>();
  term->kind = Kind::symbol;
  term->symbol = id;
  IntExpr expr;
  expr.term_ = std::move(term);
  return expr;
}

IntExpr IntExpr::make(Kind kind, std::vector<IntExpr> operands) {
  auto term = std::make_shared<Term>();
  term->kind = kind;
  term->operands = std::move(operands);
  IntExpr expr;
  expr.term_ = std::move(term);
  return expr;
}

int64_t IntExpr::constant() const {
  AG_CHECK(is_constant(), "the number of a symbolic size was asked for: " + to_string(*this));
  return value_;
}

std::optional<int64_t> IntExpr::maybe_constant() const {
  return is_constant() ? std::optional(value_) : std::nullopt;
}

IntExpr::Kind IntExpr::kind() const { return term_ ? term_->kind : Kind::constant; }

const std::vector<IntExpr>& IntExpr::operands() const {
  static const std::vector<IntExpr> none;
  return term_ ? term_->operands : none;
}

SymbolId IntExpr::symbol_id() const {
  AG_CHECK(kind() == Kind::symbol, "not a symbol: " + to_string(*this));
  return term_->symbol;
}

int64_t IntExpr::evaluate(const std::vector<int64_t>& symbols) const {
  if (is_constant()) return value_;
  if (term_->kind == Kind::symbol) {
    AG_CHECK(std::cmp_less(term_->symbol, symbols.size()),
             "no value was given for symbol " + to_string(*this));
    return symbols[term_->symbol];
  }
  const std::vector<IntExpr>& parts = term_->operands;
  int64_t result = parts.front().evaluate(symbols);
  for (size_t i = 1; i < parts.size(); ++i) {
    const int64_t next = parts[i].evaluate(symbols);
    switch (term_->kind) {
      case Kind::add: result = checked_add(result, next); break;
      case Kind::mul: result = checked_mul(result, next); break;
      case Kind::floor_div: result = floor_quotient(result, next); break;
      case Kind::mod: result = floor_remainder(result, next); break;
      case Kind::min: result = std::min(result, next); break;
      case Kind::max: result = std::max(result, next); break;
      case Kind::constant:
      case Kind::symbol: break;
    }
  }
  return result;
}

bool operator==(const IntExpr& a, const IntExpr& b) {
  if (a.term_ == b.term_) return a.term_ != nullptr || a.value_ == b.value_;
  if (!a.term_ || !b.term_) return false;
  return a.term_->kind == b.term_->kind && a.term_->symbol == b.term_->symbol &&
         a.term_->operands == b.term_->operands;
}

bool operator<(const IntExpr& a, const IntExpr& b) {
  if (!a.term_ || !b.term_) {
    if (!a.term_ && !b.term_) return a.value_ < b.value_;
    return !a.term_;
  }
  if (a.term_->kind != b.term_->kind) return a.term_->kind < b.term_->kind;
  if (a.term_->symbol != b.term_->symbol) return a.term_->symbol < b.term_->symbol;
  return a.term_->operands < b.term_->operands;
}

uint64_t hash_value(const IntExpr& expr) {
  if (expr.is_constant()) return mix_bits(0, static_cast<uint64_t>(expr.constant()));
  uint64_t hash = mix_bits(1, static_cast<uint64_t>(expr.kind()));
  if (expr.kind() == IntExpr::Kind::symbol) {
    return mix_bits(hash, static_cast<uint64_t>(expr.symbol_id()));
  }
  for (const IntExpr& operand : expr.operands()) hash = mix_bits(hash, hash_value(operand));
  return hash;
}

}  // namespace antegrad
