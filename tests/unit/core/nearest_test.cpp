#include "options/nearest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace antegrad::testing {
namespace nearest_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::string_view kNames[] = {"audit",        "partition",   "memory_budget",
                                       "memory_share", "recompute_a", "recompute_b",
                                       "recompute_c",  "recompute_d"};

TEST(NearestNames, AreThoseWithFewestEdits) {
  EXPECT_THAT(nearest_names("audi", kNames), ElementsAre("audit"));
  EXPECT_THAT(nearest_names("adit", kNames), ElementsAre("audit"));
  EXPECT_THAT(nearest_names("partitoin", kNames), ElementsAre("partition"));
  EXPECT_THAT(nearest_names("memory_budgets", kNames), ElementsAre("memory_budget"));
}

TEST(NearestNames, AreAtMostThree) {
  EXPECT_THAT(nearest_names("recompute_x", kNames),
              ElementsAre("recompute_a", "recompute_b", "recompute_c"));
}

TEST(NearestNames, MayHaveTheNameAsAPart) {
  EXPECT_THAT(nearest_names("share", kNames), ElementsAre("memory_share"));
}

TEST(NearestNames, AreNoneForSomethingElse) {
  EXPECT_THAT(nearest_names("colour", kNames), IsEmpty());
  EXPECT_THAT(nearest_names("", kNames), IsEmpty());
  EXPECT_THAT(nearest_names("audit", {}), IsEmpty());
}

}  // namespace nearest_test
}  // namespace antegrad::testing
