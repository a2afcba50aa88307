// The rule by which a kernel of the level `close` is believed.

#include "lower/closeness.h"

#include <cmath>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace antegrad::testing {
namespace closeness_test {

/// Random numbers, and the same with errors of up to `ours` and `theirs` units of float32.
struct Errors {
  std::vector<double> exact, kernel, eager;

  Errors(double ours, double theirs) {
    std::mt19937 random(1);
    std::uniform_real_distribution<double> number(1, 2), error(-0x1p-23, 0x1p-23);
    for (int i = 0; i < 10000; ++i) {
      exact.push_back(number(random));
      kernel.push_back(exact.back() + ours * error(random));
      eager.push_back(exact.back() + theirs * error(random));
    }
  }
  std::string reason(bool wider = true) const {
    return lower::less_accurate({DType::f32, kernel, eager, exact, wider});
  }
};

TEST(Closeness, EqualErrorsAreBelieved) {
  EXPECT_EQ(Errors(1, 1).reason(), "");
  EXPECT_EQ(Errors(0.5, 1).reason(), "");
}

TEST(Closeness, LargerErrorsAreNot) {
  EXPECT_NE(Errors(1.2, 1).reason(), "");
  EXPECT_NE(Errors(2, 1).reason(), "");
}

TEST(Closeness, OneWrongElementIsSeen) {
  Errors errors(1, 1);
  errors.kernel[77] += 0x1p-20;
  EXPECT_NE(errors.reason(), "");
}

TEST(Closeness, WithoutAWiderTypeGrossErrorsAreSeen) {
  EXPECT_EQ(Errors(8, 0).reason(false), "");
  Errors errors(1, 0);
  errors.kernel[77] += 0.5;
  EXPECT_NE(errors.reason(false), "");
}

TEST(Closeness, OfFewElementsAnErrorOfOneUnitIsChance) {
  const auto believed = [](double kernel) {
    const double eager = 1, exact = 1;
    return lower::less_accurate({DType::f32, {&kernel, 1}, {&eager, 1}, {&exact, 1}}).empty();
  };
  EXPECT_TRUE(believed(1 + 0x1p-23));
  EXPECT_FALSE(believed(1 + 0x1p-21));
}

TEST(Closeness, KindsOfNumbersAreKept) {
  const auto believed = [](double kernel, double eager, double exact) {
    return lower::less_accurate({DType::f16, {&kernel, 1}, {&eager, 1}, {&exact, 1}}).empty();
  };
  EXPECT_FALSE(believed(NAN, 1, 1));
  EXPECT_FALSE(believed(1, NAN, NAN));
  EXPECT_FALSE(believed(1, INFINITY, INFINITY));
  EXPECT_FALSE(believed(-INFINITY, INFINITY, 1e9));  // which overflows
  EXPECT_TRUE(believed(INFINITY, INFINITY, 1e9));
  EXPECT_TRUE(believed(INFINITY, NAN, NAN));
  EXPECT_TRUE(believed(60000, INFINITY, 60000));  // eager overflowed on its way
  EXPECT_FALSE(believed(NAN, INFINITY, 60000));
}

}  // namespace closeness_test
}  // namespace antegrad::testing
