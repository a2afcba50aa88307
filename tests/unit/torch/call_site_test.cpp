// Frames outside of all loaded objects.

#include "capture/call_site.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace antegrad::testing {

const void* place_without_line();  // no_line_table.cpp

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

std::string call_site_inside(const void* function) {
  const std::array<void*, 1> frame = {
      reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(function) + 2)};
  return capture::call_site(frame);
}

TEST(CallSite, SaysWhatToCompileWithWhereThereAreNoLines) {
  EXPECT_EQ(call_site_inside(place_without_line()),
            "no_line_table.cpp (compile it with -g1 to see the line)");
}

TEST(CallSite, IsALineWhereThereAreSome) {
  const auto place = call_site_inside(reinterpret_cast<const void*>(&here));
  EXPECT_TRUE(place.starts_with("call_site_test.cpp:")) << place;
}

}  // namespace call_site_test
}  // namespace antegrad::testing
