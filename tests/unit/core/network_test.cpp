#include "cost/network.h"

#include <gtest/gtest.h>

#include <cmath>

namespace antegrad::testing {
namespace network_test {

using enum CollectiveAlgorithm;

constexpr double kBytes = 64e6;
constexpr Network kFour{.inside = {1e-6, 4e9}, .between = {10e-6, 1e9}, .ranks_of_machine = 4};

TEST(Network, OfOneRankTakesNoTime) {
  for (const auto algorithm : {flat, hierarchical, doubling}) {
    EXPECT_EQ(collective_seconds(kFour, 1, kBytes, algorithm), 0);
  }
}

TEST(Network, WithinAMachineEachRankMovesItsShareFromAllOthers) {
  for (const auto algorithm : {flat, hierarchical, doubling}) {
    EXPECT_DOUBLE_EQ(collective_seconds(kFour, 4, kBytes, algorithm),
                     3 * 1e-6 + 0.75 * kBytes / 4e9);
    EXPECT_DOUBLE_EQ(collective_seconds(kFour, 2, kBytes, algorithm), 1e-6 + 0.5 * kBytes / 4e9);
  }
}

// Eight machines of four ranks. The link of a machine carries what its four ranks move: all but an
// eighth for each of them, or once for all.
TEST(Network, BetweenMachinesAHierarchySharesTheLink) {
  EXPECT_DOUBLE_EQ(collective_seconds(kFour, 32, kBytes, flat),
                   3 * 1e-6 + 3.0 / 32 * kBytes / 4e9 + 28 * 10e-6 + 4 * 28.0 / 32 * kBytes / 1e9);
  const double bytes = 7.0 / 8 * kBytes / 1e9 + 3.0 / 4 * kBytes / 4e9;
  EXPECT_DOUBLE_EQ(collective_seconds(kFour, 32, kBytes, hierarchical),
                   7 * 10e-6 + 3 * 1e-6 + bytes);
  EXPECT_DOUBLE_EQ(collective_seconds(kFour, 32, kBytes, doubling), 3 * 10e-6 + 3 * 1e-6 + bytes);
}

}  // namespace network_test
}  // namespace antegrad::testing
