// Frames that no object holds.

#include "capture/call_site.h"

#include <gtest/gtest.h>

#include <array>

namespace antegrad::testing {
namespace call_site_test {

void here() {}

TEST(CallSite, FramesOfNoObjectArePassedOver) {
  const std::array<void*, 1> nowhere = {nullptr};
  EXPECT_EQ(capture::call_site(nowhere), "an unknown place");
  // One byte past the entry of a function of this program.
  const std::array<void*, 2> then_here = {
      nullptr, reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(&here) + 1)};
  EXPECT_NE(capture::call_site(then_here), "an unknown place");
}

}  // namespace call_site_test
}  // namespace antegrad::testing
