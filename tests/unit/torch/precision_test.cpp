// libtorch's switches for float32 precision, as one number.

#include "torch_compat/precision.h"

#include <ATen/Context.h>
#include <gtest/gtest.h>

namespace antegrad::testing {
namespace precision_test {

using torch_compat::float32_precision_switches;

// libtorch cannot go back to a setting that was never set, so tests compare two settings.
TEST(Float32Precision, EachSwitchChangesTheNumber) {
  auto& context = at::globalContext();
  const bool tf32 = context.allowTF32CuDNN();
  context.setAllowTF32CuDNN(!tf32);
  const auto other = float32_precision_switches(context);
  EXPECT_EQ(float32_precision_switches(context), other);
  context.setAllowTF32CuDNN(tf32);
  const auto back = float32_precision_switches(context);
  EXPECT_NE(back, other);

  context.setFloat32MatmulPrecision("medium");
  const auto medium = float32_precision_switches(context);
  context.setFloat32MatmulPrecision("highest");
  EXPECT_NE(float32_precision_switches(context), medium);
}

}  // namespace precision_test
}  // namespace antegrad::testing
