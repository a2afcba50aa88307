#include "graph/int_expr.h"

#include <functional>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include <antegrad/error.h>

#include "graphs.h"

namespace antegrad::testing {
namespace int_expr_test {

const IntExpr s0 = IntExpr::symbol(0);
const IntExpr s1 = IntExpr::symbol(1);

IntExpr parsed(std::string_view text) {
  IntExpr expr = parse_int_expr(text);
  EXPECT_EQ(text, "");
  return expr;
}

TEST(IntExpr, ConstantsFold) {
  EXPECT_EQ(IntExpr(3) + 4, IntExpr(7));
  EXPECT_EQ(IntExpr(3) - 4, IntExpr(-1));
  EXPECT_EQ(IntExpr::floor_div(-7, 2), IntExpr(-4));
  EXPECT_EQ(IntExpr::mod(-7, 2), IntExpr(1));
  EXPECT_EQ(IntExpr::mod(7, -2), IntExpr(-1));
  EXPECT_EQ(IntExpr::min(3, 4), IntExpr(3));
  EXPECT_EQ(IntExpr::max(3, 4), IntExpr(4));
}

TEST(IntExpr, EqualExpressionsCompareEqualHoweverTheyWereBuilt) {
  EXPECT_EQ(s0 + s1, s1 + s0);
  EXPECT_EQ((s0 + 1) * s1, s0 * s1 + s1);
  EXPECT_EQ(s0 - s0, IntExpr(0));
  EXPECT_EQ(s0 * 0, IntExpr(0));
  EXPECT_EQ(s0 * 1, s0);
  EXPECT_EQ((s0 + s1) * (s0 - s1), s0 * s0 - s1 * s1);
  EXPECT_EQ(IntExpr::floor_div(s0 * 4, 2), s0 * 2);
  EXPECT_EQ(IntExpr::floor_div(s0 * 2, 4), IntExpr::floor_div(s0, 2));
  EXPECT_EQ(IntExpr::floor_div(IntExpr::floor_div(s0, 2), 3), IntExpr::floor_div(s0, 6));
  EXPECT_EQ(IntExpr::floor_div(s0 * s1, s1), s0);
  EXPECT_EQ(IntExpr::floor_div(s0 * s1 + s0, s1 + 1), s0);
  EXPECT_EQ(IntExpr::mod(s0 * 8 + 3, 4), IntExpr(3));
  EXPECT_EQ(IntExpr::mod(s0 * s1, s0), IntExpr(0));
  EXPECT_EQ(IntExpr::min(s0, s0 + 1), s0);
  EXPECT_EQ(IntExpr::max(s0, IntExpr::max(s1, s0)), IntExpr::max(s1, s0));
}

TEST(IntExpr, SizesOfAConvolutionAgree) {
  // The output size for stride 2, padding 1, kernel 3, in its two usual forms.
  EXPECT_EQ(IntExpr::floor_div(s0 + 2 - 3, 2) + 1, IntExpr::floor_div(s0 - 1 + 2, 2));
}

TEST(IntExpr, PrintsAsPeopleWriteIt) {
  EXPECT_EQ(to_string(s0 * 4 + 1), "(4*s0 + 1)");
  EXPECT_EQ(to_string(s0 - 1), "(s0 - 1)");
  EXPECT_EQ(to_string(IntExpr::floor_div(s0, 2)), "(s0 // 2)");
  EXPECT_EQ(to_string(IntExpr::mod(s0, 8)), "(s0 % 8)");
  EXPECT_EQ(to_string(IntExpr::min(s0, 4)), "min(s0, 4)");
  EXPECT_EQ(to_string(s0 * -1), "-s0");
  EXPECT_EQ(to_string(IntExpr::floor_div(s0, s1 * 2)), "(s0 // (2*s1))");
}

TEST(IntExpr, ReadsTheUsualPrecedence) {
  EXPECT_EQ(parsed("1 + 2*3"), IntExpr(7));
  EXPECT_EQ(parsed("2*(1 + 3) - -1"), IntExpr(9));
  EXPECT_EQ(parsed("s0*4//2"), s0 * 2);
  EXPECT_EQ(parsed("max(s0, 2, s1)"), IntExpr::max(IntExpr::max(s0, 2), s1));
  std::string_view rest = "s0, 4]";
  EXPECT_EQ(parse_int_expr(rest), s0);
  EXPECT_EQ(rest, ", 4]");
}

TEST(IntExpr, MalformedTextIsAGraphErrorAndNeverACrash) {
  for (const std::string text :
       {"", "(", "(1", "1 +", "min(", "s", "4 // 0", "99999999999999999999", "s99999999999",
        "9223372036854775807 + 1"}) {
    std::string_view view = text;
    EXPECT_THROW(parse_int_expr(view), GraphError) << text;
  }
  const std::string deep(100000, '(');
  std::string_view view = deep;
  EXPECT_THROW(parse_int_expr(view), GraphError);
  const std::string minuses(100000, '-');
  view = minuses;
  EXPECT_THROW(parse_int_expr(view), GraphError);
  std::string huge = "1";
  for (int i = 0; i < 40; ++i) huge += "*(s0 + s1 + s2 + s3 + 1)";
  view = huge;
  EXPECT_THROW(parse_int_expr(view), GraphError);
}

TEST(IntExpr, ANumberIsAskedOnlyOfConstants) {
  EXPECT_EQ(IntExpr(5).constant(), 5);
  EXPECT_EQ(s0.maybe_constant(), std::nullopt);
  EXPECT_THROW(s0.constant(), InternalError);
  EXPECT_THROW(s0.evaluate({}), InternalError);
}

/// An expression and a function that computes the same.
struct Twin {
  IntExpr expr;
  std::function<int64_t(const std::vector<int64_t>&)> value;
};

int64_t floor_quotient(int64_t a, int64_t b) {
  const int64_t quotient = a / b;
  return quotient - (a % b != 0 && (a < 0) != (b < 0));
}

Twin random_twin(std::mt19937& random, int depth) {
  const auto below = [&random](int n) {
    return static_cast<int>(random() % static_cast<unsigned>(n));
  };
  if (depth == 0 || below(4) == 0) {
    if (below(2) == 0) {
      const int64_t number = below(9) - 3;
      return {number, [number](const auto&) { return number; }};
    }
    const int symbol = below(3);
    return {IntExpr::symbol(symbol), [symbol](const auto& s) { return s[symbol]; }};
  }
  const Twin a = random_twin(random, depth - 1);
  const Twin b = random_twin(random, depth - 1);
  // Divisors are never 0 by construction: a number, or a symbol, which is positive.
  const int64_t number = 1 + below(6);
  const bool symbolic = below(3) == 0;
  const IntExpr divisor = symbolic ? IntExpr::symbol(0) * number : IntExpr(number);
  const auto divide_by = [number, symbolic](const auto& s) {
    return symbolic ? s[0] * number : number;
  };
  switch (below(7)) {
    case 0: return {a.expr + b.expr, [=](const auto& s) { return a.value(s) + b.value(s); }};
    case 1: return {a.expr - b.expr, [=](const auto& s) { return a.value(s) - b.value(s); }};
    case 2: return {a.expr * b.expr, [=](const auto& s) { return a.value(s) * b.value(s); }};
    case 3:
      return {IntExpr::floor_div(a.expr, divisor),
              [=](const auto& s) { return floor_quotient(a.value(s), divide_by(s)); }};
    case 4:
      return {IntExpr::mod(a.expr, divisor), [=](const auto& s) {
                return a.value(s) - floor_quotient(a.value(s), divide_by(s)) * divide_by(s);
              }};
    case 5:
      return {IntExpr::min(a.expr, b.expr),
              [=](const auto& s) { return std::min(a.value(s), b.value(s)); }};
    default:
      return {IntExpr::max(a.expr, b.expr),
              [=](const auto& s) { return std::max(a.value(s), b.value(s)); }};
  }
}

TEST(IntExpr, RandomExpressionsKeepTheirValueAndReadBack) {
  std::mt19937 random(1);
  for (int i = 0; i < 3000; ++i) {
    const Twin twin = random_twin(random, 4);
    for (const std::vector<int64_t>& symbols :
         {std::vector<int64_t>{1, 1, 1}, {2, 3, 5}, {7, 4, 12}, {16, 1, 9}}) {
      ASSERT_EQ(twin.expr.evaluate(symbols), twin.value(symbols)) << to_string(twin.expr);
    }
    const std::string text = to_string(twin.expr);
    const IntExpr again = parsed(text);
    ASSERT_EQ(again, twin.expr) << text << " reads back as " << to_string(again);
    ASSERT_EQ(hash_value(again), hash_value(twin.expr));
    ASSERT_FALSE(again < twin.expr || twin.expr < again);
  }
}

TEST(IntExpr, ExtremeConstantsReadBack) {
  for (const int64_t value :
       {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()}) {
    for (const IntExpr& expr : {IntExpr(value), s0 + value, s0 * value}) {
      EXPECT_EQ(parsed(to_string(expr)), expr) << to_string(expr);
    }
  }
}

}  // namespace int_expr_test
}  // namespace antegrad::testing
