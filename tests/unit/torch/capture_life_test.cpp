// Stand-ins may die on threads of libtorch's engine, a moment after the backward that used them.

#include <gtest/gtest.h>

#include <thread>

#include "capture/stand_in.h"
#include "shapes/shape_call.h"

namespace antegrad::capture {
namespace capture_life_test {

using std::chrono::milliseconds;

at::Tensor stand_in(const std::shared_ptr<CaptureLife>& life) {
  return at::detail::make_tensor<StandIn>(shapes::Spec{}, ValueId(7), life);
}

TEST(CaptureLife, WaitsForStandInsOnOtherThreads) {
  const auto life = std::make_shared<CaptureLife>();
  std::thread late([held = stand_in(life)]() mutable {
    std::this_thread::sleep_for(milliseconds(50));
    held.reset();
  });
  life->wait_until_none(milliseconds(60'000));
  EXPECT_TRUE(life->alive().empty());
  late.join();
}

TEST(CaptureLife, DoesNotWaitForEver) {
  const auto life = std::make_shared<CaptureLife>();
  const auto held = stand_in(life);
  life->wait_until_none(milliseconds(10));
  EXPECT_EQ(life->alive(), std::vector<ValueId>{7});
}

}  // namespace capture_life_test
}  // namespace antegrad::capture
