#include "guards/one_offs.h"

#include <gtest/gtest.h>

#include <vector>

namespace antegrad::testing::one_offs_test {
namespace {

using guards::OneOffs;

std::shared_ptr<guards::RunCount> runs(int64_t count) {
  auto runs = std::make_shared<guards::RunCount>();
  runs->started = count;
  return runs;
}

OneOffs after(size_t programs) {
  OneOffs one_offs;
  for (size_t i = 0; i < programs; ++i) one_offs.made(runs(1));
  return one_offs;
}

TEST(OneOffsOfPrograms, AreTriedOnceInAWhile) {
  EXPECT_TRUE(after(OneOffs::kWatched - 1).worth_making());
  auto one_offs = after(OneOffs::kWatched);
  for (int round = 0; round < 2; ++round) {
    for (int64_t i = 1; i < OneOffs::kRetry; ++i) EXPECT_FALSE(one_offs.worth_making()) << i;
    EXPECT_TRUE(one_offs.worth_making());
  }
}

TEST(OneOffsOfPrograms, EndWhenOneIsUsedAgain) {
  auto one_offs = after(OneOffs::kWatched);
  const auto newest = runs(1);
  one_offs.made(newest);
  EXPECT_FALSE(one_offs.worth_making());
  ++newest->started;
  ++newest->stopped;  // the run that data stopped does not count
  EXPECT_FALSE(one_offs.worth_making());
  ++newest->started;
  EXPECT_TRUE(one_offs.worth_making());
  for (size_t i = 0; i < OneOffs::kWatched; ++i) one_offs.made(runs(1));
  EXPECT_FALSE(one_offs.worth_making());
}

}  // namespace
}  // namespace antegrad::testing::one_offs_test
