// Recorded draws of a block, and their repetition.

#include "eager/random_record.h"

#include <ATen/ATen.h>
#include <antegrad/error.h>
#include <gtest/gtest.h>

#include "support/bits.h"

namespace antegrad::testing {
namespace random_record_test {

using eager::RandomRecord;
using eager::RandomReplay;

class RandomRecords : public ::testing::Test {
 protected:
  RandomRecord record_of(int64_t draws) {
    RandomRecord record;
    record.note_default(at::kCPU);
    drawn = at::rand({draws});
    record.finish();
    return record;
  }
  at::Tensor drawn;
};

TEST_F(RandomRecords, AReplayGivesTheSameBitsAndLeavesTheGeneratorAlone) {
  const auto record = record_of(5);
  at::rand({3});
  const auto present = generator_state();
  {
    const RandomReplay replay(record);
    EXPECT_TRUE(same_bits(at::rand({5}), drawn));
    EXPECT_NO_THROW(replay.check());
  }
  EXPECT_TRUE(same_bits(generator_state(), present));
}

TEST_F(RandomRecords, AnotherNumberOfDrawsIsAnError) {
  const auto record = record_of(5);
  const RandomReplay replay(record);
  EXPECT_THROW(replay.check(), BackwardError) << "nothing was drawn";
  at::rand({5});
  EXPECT_NO_THROW(replay.check());
  at::rand({1});
  EXPECT_THROW(replay.check(), BackwardError) << "one number too many was drawn";
}

TEST_F(RandomRecords, AGeneratorThatWasNotUsedIsLeftAsItIs) {
  RandomRecord record;
  record.note_default(at::kCPU);
  record.finish();
  at::rand({1});
  const auto expected = at::rand({1}, at::globalContext().defaultGenerator(at::kCPU).clone());
  const RandomReplay replay(record);
  EXPECT_TRUE(same_bits(at::rand({1}), expected));
}

TEST_F(RandomRecords, AGeneratorOfTheUsersOwn) {
  auto generator = at::globalContext().defaultGenerator(at::kCPU).clone();
  RandomRecord record;
  record.note(generator);
  const auto first = at::rand({4}, generator);
  record.finish();
  const RandomReplay replay(record);
  EXPECT_TRUE(same_bits(at::rand({4}, generator), first));
}

}  // namespace random_record_test
}  // namespace antegrad::testing
