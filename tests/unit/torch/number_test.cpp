// Numbers of a call, and what is computed from them before it runs.

#include "ops/number.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace antegrad::testing {
namespace number_test {

using ops::Number;
using ops::NumberExpr;
using ops::NumberOp;

ops::NumberExprPtr leaf(int32_t index) {
  return std::make_shared<const NumberExpr>(NumberExpr{.op = NumberOp::argument, .leaf = index});
}

std::optional<Number> compute(NumberOp op, Number a, Number b) {
  const NumberExpr expr{.op = op, .first = leaf(0), .second = leaf(1)};
  return expr.evaluate({ops::wrapped_number(a), ops::wrapped_number(b)});
}

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(Number, IntegersAreExactOrNothing) {
  EXPECT_EQ(compute(NumberOp::add, int64_t{2}, int64_t{3}), Number(int64_t{5}));
  EXPECT_EQ(compute(NumberOp::add, kMost, int64_t{1}), std::nullopt);
  EXPECT_EQ(compute(NumberOp::subtract, -kMost, int64_t{2}), std::nullopt);
  EXPECT_EQ(compute(NumberOp::multiply, kMost, int64_t{2}), std::nullopt);
  EXPECT_EQ(compute(NumberOp::divide, int64_t{1}, int64_t{3}), Number(1.0 / 3.0));
  EXPECT_EQ(compute(NumberOp::divide, kMost, int64_t{3}), std::nullopt);  // Python rounds once
  EXPECT_EQ(compute(NumberOp::divide, int64_t{1}, int64_t{0}), std::nullopt);
  EXPECT_EQ(compute(NumberOp::floor_divide, int64_t{-7}, int64_t{2}), Number(int64_t{-4}));
  EXPECT_EQ(compute(NumberOp::remainder, int64_t{-7}, int64_t{2}), Number(int64_t{1}));
  EXPECT_EQ(compute(NumberOp::floor_divide, int64_t{7}, int64_t{0}), std::nullopt);
  EXPECT_EQ(compute(NumberOp::power, int64_t{2}, int64_t{3}), std::nullopt);
}

TEST(Number, RealNumbersAreThoseOfIeeeExceptWherePythonRaises) {
  EXPECT_EQ(compute(NumberOp::subtract, 1.0, 0.1), Number(1.0 - 0.1));
  EXPECT_EQ(compute(NumberOp::multiply, 1e300, 1e300), Number(kInf));
  EXPECT_EQ(compute(NumberOp::divide, 1.0, 0.0), std::nullopt);
  EXPECT_EQ(compute(NumberOp::power, 0.9, 50.0), Number(std::pow(0.9, 50.0)));
  EXPECT_EQ(compute(NumberOp::power, 1e300, 2.0), std::nullopt);
  EXPECT_EQ(compute(NumberOp::power, -2.0, 0.5), std::nullopt);
  EXPECT_EQ(compute(NumberOp::less, std::nan(""), 1.0), Number(false));
  EXPECT_EQ(compute(NumberOp::add, 1.0, int64_t{1}), std::nullopt);
}

TEST(Number, BitsDecideWhetherNumbersAreTheSame) {
  EXPECT_FALSE(ops::same_number(0.0, -0.0));
  EXPECT_TRUE(ops::same_number(std::nan(""), std::nan("")));
  EXPECT_FALSE(ops::same_number(1.0, int64_t{1}));
  EXPECT_FALSE(ops::same_number(true, int64_t{1}));
}

TEST(Number, TextsOfDifferentNumbersDiffer) {
  EXPECT_EQ(ops::to_text(1.0), "1.0");
  EXPECT_EQ(ops::to_text(int64_t{1}), "1");
  EXPECT_EQ(ops::to_text(-0.0), "-0.0");
  EXPECT_EQ(ops::to_text(1e300), "1e+300");
  EXPECT_EQ(ops::to_text(0.1), "0.1");
  EXPECT_NE(ops::to_text(std::nan("")), ops::to_text(-std::nan("")));
}

TEST(Number, ALeafIsAWrappedNumberOfTheCpu) {
  const auto number = ops::wrapped_number(0.3);
  EXPECT_TRUE(ops::is_number(number));
  EXPECT_EQ(ops::read_number(number), Number(0.3));
  EXPECT_FALSE(ops::is_number(number.detach().clone()));
  EXPECT_FALSE(ops::is_number(at::Tensor()));
}

}  // namespace number_test
}  // namespace antegrad::testing
