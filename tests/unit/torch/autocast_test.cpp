#include "torch_compat/autocast.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace antegrad::testing {
namespace autocast_test {

using torch_compat::Autocast;

TEST(Autocast, ADtypeSaysNothingWhileItIsOff) {
  Autocast a, b;
  b.cpu_dtype = at::kHalf;
  EXPECT_EQ(a, b);
  a.cpu = b.cpu = true;
  EXPECT_NE(a, b);
}

TEST(Autocast, AScopePutsTheThreadIntoTheStateAndBack) {
  const auto before = Autocast::now();
  Autocast wanted;
  wanted.cpu = true;
  const auto x = at::ones({2, 2});
  {
    const torch_compat::AutocastScope scope(wanted);
    EXPECT_EQ(Autocast::now(), wanted);
    EXPECT_EQ(at::mm(x, x).scalar_type(), at::kBFloat16);
  }
  EXPECT_EQ(Autocast::now(), before);
  EXPECT_EQ(at::mm(x, x).scalar_type(), at::kFloat);
}

}  // namespace autocast_test
}  // namespace antegrad::testing
