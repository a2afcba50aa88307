#include <algorithm>
#include <charconv>
#include <limits>

#include <antegrad/error.h>

#include "graph/int_expr.h"

namespace antegrad {
namespace {

/// A negative number, or a product with a negative factor in front: printed as a subtraction. The
/// smallest number has no positive counterpart and cannot be subtracted.
bool is_negative(const IntExpr& expr) {
  const IntExpr& factor = expr.kind() == IntExpr::Kind::mul ? expr.operands().front() : expr;
  return factor.is_constant() && factor.constant() < 0 &&
         factor.constant() != std::numeric_limits<int64_t>::min();
}

std::string product_text(const IntExpr& product) {
  std::string text;
  for (const IntExpr& factor : product.operands()) {
    if (factor == IntExpr(-1)) {
      text += "-";
      continue;
    }
    if (!text.empty() && text != "-") text += "*";
    text += to_string(factor);
  }
  return text;
}

std::string sum_text(const IntExpr& sum) {
  std::string text = "(";
  for (size_t i = 0; i < sum.operands().size(); ++i) {
    const IntExpr& term = sum.operands()[i];
    std::string part = to_string(term);
    if (i > 0) {
      const bool negative = is_negative(term);
      text += negative ? " - " : " + ";
      if (negative) part.erase(0, 1);
    }
    text += part;
  }
  return text + ")";
}

std::string division_text(const IntExpr& expr, const char* symbol) {
  const auto operand = [](const IntExpr& side) {
    return side.kind() == IntExpr::Kind::mul ? "(" + to_string(side) + ")" : to_string(side);
  };
  return "(" + operand(expr.operands()[0]) + symbol + operand(expr.operands()[1]) + ")";
}

std::string call_text(const IntExpr& expr, const char* function) {
  std::string text = function;
  for (const IntExpr& operand : expr.operands()) {
    text += text.back() == '(' ? to_string(operand) : ", " + to_string(operand);
  }
  return text + ")";
}

/// Recursive descent parser of the printed form, with the usual precedence and any parentheses.
class Parser {
 public:
  explicit Parser(std::string_view& text) : text_(text) {}

  IntExpr sum() {
    IntExpr value = product();
    while (true) {
      if (take("+")) {
        value = value + product();
      } else if (take("-")) {
        value = value - product();
      } else {
        return value;
      }
    }
  }

 private:
  // Deep enough for every expression in sizes, and shallow enough for the stack.
  static constexpr int kMaxDepth = 256;

  IntExpr product() {
    IntExpr value = operand();
    while (true) {
      if (take("*")) {
        value = value * operand();
      } else if (take("//")) {
        value = IntExpr::floor_div(value, operand());
      } else if (take("%")) {
        value = IntExpr::mod(value, operand());
      } else {
        return value;
      }
    }
  }

  IntExpr operand() {
    if (depth_ == kMaxDepth) fail("an expression nested less than 256 deep");
    ++depth_;
    IntExpr value = operand_below();
    --depth_;
    return value;
  }

  IntExpr operand_below() {
    if (take("(")) {
      IntExpr value = sum();
      expect(")");
      return value;
    }
    if (take("min(")) return extremum(&IntExpr::min);
    if (take("max(")) return extremum(&IntExpr::max);
    skip_blanks();
    if (text_.size() > 1 && text_[0] == 's' && digit(text_[1])) {
      text_.remove_prefix(1);
      return IntExpr::symbol(number<SymbolId>());
    }
    const bool negative = !text_.empty() && text_[0] == '-';
    if (text_.size() > (negative ? 1 : 0) && digit(text_[negative ? 1 : 0])) {
      return number<int64_t>();
    }
    if (take("-")) return operand() * IntExpr(-1);
    fail("a number, a symbol such as s0, or (");
  }

  IntExpr extremum(IntExpr (*combine)(const IntExpr&, const IntExpr&)) {
    IntExpr value = sum();
    while (take(",")) value = combine(value, sum());
    expect(")");
    return value;
  }

  template <class Number>
  Number number() {
    Number value = 0;
    const auto [stop, error] = std::from_chars(text_.data(), text_.data() + text_.size(), value);
    if (error != std::errc()) fail("a number that fits in 64 bits (a symbol's in 32)");
    text_.remove_prefix(stop - text_.data());
    return value;
  }

  static bool digit(char c) { return c >= '0' && c <= '9'; }

  void skip_blanks() {
    while (!text_.empty() && (text_[0] == ' ' || text_[0] == '\t')) text_.remove_prefix(1);
  }

  bool take(std::string_view word) {
    skip_blanks();
    if (!text_.starts_with(word)) return false;
    text_.remove_prefix(word.size());
    return true;
  }

  void expect(std::string_view word) {
    if (!take(word)) fail("\"" + std::string(word) + "\"");
  }

  [[noreturn]] void fail(const std::string& expected) {
    skip_blanks();
    const std::string_view rest = text_.substr(0, std::min<size_t>(text_.find('\n'), 20));
    throw GraphError(
        ErrorText{expected + " in an integer size expression",
                  rest.empty() ? "the end of the line" : "\"" + std::string(rest) + "\"", ""});
  }

  std::string_view& text_;
  int depth_ = 0;
};

}  // namespace

std::string to_string(const IntExpr& expr) {
  switch (expr.kind()) {
    case IntExpr::Kind::constant: return std::to_string(expr.constant());
    case IntExpr::Kind::symbol: return "s" + std::to_string(expr.symbol_id());
    case IntExpr::Kind::add: return sum_text(expr);
    case IntExpr::Kind::mul: return product_text(expr);
    case IntExpr::Kind::floor_div: return division_text(expr, " // ");
    case IntExpr::Kind::mod: return division_text(expr, " % ");
    case IntExpr::Kind::min: return call_text(expr, "min(");
    case IntExpr::Kind::max: return call_text(expr, "max(");
  }
  return {};
}

IntExpr parse_int_expr(std::string_view& text) { return Parser(text).sum(); }

}  // namespace antegrad
