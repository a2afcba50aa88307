// When a program is worth recording as a CUDA graph, by the addresses of its inputs.

#include "runtime/address_history.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

namespace antegrad::testing {
namespace address_history_test {

using runtime::AddressHistory;
using runtime::InputPlace;
using Copied = std::optional<std::vector<bool>>;

// Inputs of 1 KiB at these addresses.
Copied next(AddressHistory& history, const std::vector<uint64_t>& addresses, int64_t bytes = 1024) {
  std::vector<InputPlace> places;
  for (const auto address : addresses) places.push_back({address, bytes});
  return history.next(places);
}

TEST(AddressHistory, WaitsForTwoCallsWithInputsInPlace) {
  AddressHistory history(true);
  EXPECT_EQ(next(history, {1, 2}), std::nullopt);
  EXPECT_EQ(next(history, {1, 2}), std::nullopt);
  EXPECT_EQ(next(history, {1, 2}), Copied({false, false}));
}

TEST(AddressHistory, CopiesWhatMovesInEachCall) {
  AddressHistory history(true);
  next(history, {1, 2});
  next(history, {1, 3});
  EXPECT_EQ(next(history, {1, 4}), Copied({false, true}));
}

// A backward whose forward is recorded in the meantime: what is saved moves once.
TEST(AddressHistory, DoesNotCopyWhatMovedOnce) {
  AddressHistory history(true);
  next(history, {1, 2});
  EXPECT_EQ(next(history, {1, 9}), std::nullopt);
  EXPECT_EQ(next(history, {1, 9}), std::nullopt);
  EXPECT_EQ(next(history, {1, 9}), Copied({false, false}));
}

TEST(AddressHistory, CopiesWhatLayElsewhereForAnEarlierGraph) {
  AddressHistory history(true);
  for (int i = 0; i < 3; ++i) next(history, {1, 2});  // recorded
  EXPECT_EQ(next(history, {1, 5}), std::nullopt);
  EXPECT_EQ(next(history, {1, 5}), std::nullopt);
  EXPECT_EQ(next(history, {1, 5}), Copied({false, true}));
}

TEST(AddressHistory, WaitsWhileOtherInputsMoveEachTime) {
  AddressHistory history(true);
  next(history, {1, 2});
  EXPECT_EQ(next(history, {3, 2}), std::nullopt);
  EXPECT_EQ(next(history, {3, 4}), std::nullopt);
  EXPECT_EQ(next(history, {5, 4}), std::nullopt);
}

TEST(AddressHistory, DoesNotCopyLargeInputs) {
  AddressHistory history(true);
  const auto large = AddressHistory::kMostCopiedBytes + 1;
  next(history, {1, 2}, large);
  next(history, {1, 3}, large);
  EXPECT_EQ(next(history, {1, 4}, large), std::nullopt);
  EXPECT_EQ(next(history, {1, 4}, large), std::nullopt);
  EXPECT_EQ(next(history, {1, 4}, large), Copied({false, false}));
}

TEST(AddressHistory, CopiesNothingForProgramsThatReadWholeStorages) {
  AddressHistory history(false);
  next(history, {1});
  next(history, {2});
  EXPECT_EQ(next(history, {3}), std::nullopt);
  next(history, {3});
  EXPECT_EQ(next(history, {3}), Copied(std::vector<bool>{false}));
}

TEST(AddressHistory, EndsAfterManyGraphs) {
  AddressHistory history(false);
  size_t graphs = 0;
  for (uint64_t call = 0; call < 1000; ++call) graphs += next(history, {1 + call / 5}).has_value();
  EXPECT_EQ(graphs, AddressHistory::kMostGraphs);
}

}  // namespace address_history_test
}  // namespace antegrad::testing
