// The tests' own tool: whoever touches memory beside a tensor is noticed.

#include "support/guarded_memory.h"

#include <gtest/gtest.h>

namespace antegrad::testing {
namespace guarded_memory_test {

TEST(GuardedMemory, ItsEndOrItsBeginningBordersOnAGuard) {
  for (const bool at_end : {false, true}) {
    GuardedMemory memory(-12, 20, at_end);
    memory.open(-12, 20);
    volatile char* const bytes = memory.base();
    EXPECT_FALSE(fault_of([&] { bytes[-12] = bytes[19]; }));
    const int64_t beside = at_end ? 20 : -13;
    const auto fault = fault_of([&] { bytes[beside] = 1; });
    ASSERT_TRUE(fault);
    EXPECT_EQ(*fault - memory.base(), beside);
    EXPECT_TRUE(memory.covers(*fault));
    EXPECT_TRUE(fault_of([&] { bytes[0] = bytes[beside]; }));
  }
}

TEST(GuardedMemory, PartsThatLieFarApartHaveGuardsBetweenThem) {
  constexpr int64_t kFar = int64_t{1} << 34;
  GuardedMemory memory(0, kFar + 4, true);
  memory.open(0, 4);
  memory.open(kFar, kFar + 4);
  volatile char* const bytes = memory.base();
  EXPECT_FALSE(fault_of([&] { bytes[0] = bytes[kFar + 3]; }));
  EXPECT_TRUE(fault_of([&] { bytes[kFar / 2] = 0; }));
  EXPECT_TRUE(fault_of([&] { bytes[kFar + 4] = 0; }));
  EXPECT_EQ(memory.open_parts().size(), 2u);
}

}  // namespace guarded_memory_test
}  // namespace antegrad::testing
