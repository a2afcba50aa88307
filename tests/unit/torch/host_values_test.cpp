// Host values, as guards compare them and as text.

#include "guards/host_values.h"

#include <gtest/gtest.h>

#include <limits>

namespace antegrad::testing {
namespace host_values_test {

using guards::host_difference;
using guards::host_text;
using guards::same_host;

TEST(HostValues, NumbersAreEqualWhenTheirBitsAre) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(same_host(HostValue(nan), HostValue(nan)));
  EXPECT_FALSE(same_host(HostValue(0.0), HostValue(-0.0)));
  EXPECT_TRUE(same_host(HostValue(0.5), HostValue(0.5)));
}

TEST(HostValues, OfAnotherTypeAreOthers) {
  EXPECT_FALSE(same_host(HostValue(int64_t{1}), HostValue(1.0)));
  EXPECT_FALSE(same_host(HostValue(int64_t{1}), HostValue(true)));
  EXPECT_FALSE(same_host(HostValue(std::string("1")), HostValue(int64_t{1})));
}

TEST(HostValues, AreShownAsTheyAreWritten) {
  EXPECT_EQ(host_text(HostValue(true)), "true");
  EXPECT_EQ(host_text(HostValue(int64_t{3})), "3");
  EXPECT_EQ(host_text(HostValue(0.1)), "0.1");
  EXPECT_EQ(host_text(HostValue(std::string("mean"))), "\"mean\"");
  EXPECT_EQ(host_text(std::vector<HostValue>{int64_t{3}}), "3");
  EXPECT_EQ(host_text(std::vector<HostValue>{int64_t{1}, int64_t{2}}), "[1, 2]");
  EXPECT_EQ(host_text(std::vector<HostValue>{}), "[]");
}

TEST(HostValues, TheFirstDifferenceIsNamed) {
  const std::vector<HostValue> was = {int64_t{1}, int64_t{2}};
  EXPECT_EQ(host_difference("the arguments", was, was), "");
  EXPECT_EQ(host_difference("the arguments", was, {int64_t{1}, int64_t{3}}),
            "host value 1 of the arguments was 2, is 3");
  EXPECT_EQ(host_difference("the arguments", was, {int64_t{1}}),
            "the number of host values of the arguments was 2, is 1");
}

}  // namespace host_values_test
}  // namespace antegrad::testing
