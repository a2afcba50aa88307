// libtorch's switches for float32 precision, as one number.

#include "torch_compat/precision.h"

#include <ATen/Context.h>
#include <gtest/gtest.h>

namespace antegrad::testing {
namespace precision_test {

using torch_compat::float32_precision_switches;

TEST(Float32Precision, EachSwitchChangesTheNumberAndBack) {
  auto& context = at::globalContext();
  const auto before = float32_precision_switches(context);
  EXPECT_EQ(float32_precision_switches(context), before);

  const bool tf32 = context.allowTF32CuDNN();
  context.setAllowTF32CuDNN(!tf32);
  EXPECT_NE(float32_precision_switches(context), before);
  context.setAllowTF32CuDNN(tf32);
  EXPECT_EQ(float32_precision_switches(context), before);

  const auto matmul = context.float32MatmulPrecision();
  const auto name_of = [](at::Float32MatmulPrecision precision) {
    return precision == at::Float32MatmulPrecision::HIGHEST ? "highest"
           : precision == at::Float32MatmulPrecision::HIGH  ? "high"
                                                            : "medium";
  };
  context.setFloat32MatmulPrecision(matmul == at::Float32MatmulPrecision::HIGHEST ? "medium"
                                                                                  : "highest");
  const auto other = float32_precision_switches(context);
  context.setFloat32MatmulPrecision(name_of(matmul));
  EXPECT_NE(other, before);
}

}  // namespace precision_test
}  // namespace antegrad::testing
