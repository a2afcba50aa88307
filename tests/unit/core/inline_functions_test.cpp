#include "lower/inline_functions.h"

#include <cstdint>
#include <string>
#include <vector>

#include "support/kernels.h"

namespace antegrad::testing {
namespace inline_functions_test {

using lower::Capability;
using lower::Kernel;

TEST(InlineFunctions, CallNothing) {
  for (const std::string_view function : lower::kInlineFunctions) {
    const auto made = [&](bool in_line) {
      Kernel kernel = lower::function_kernel("f", function, Capability::avx512, in_line);
      lower::verify(kernel);
      return kernel;
    };
    EXPECT_TRUE(made(true).functions.empty()) << function;
    ASSERT_EQ(made(false).functions.size(), 1) << function;
    EXPECT_EQ(made(false).functions[0].symbol, lower::sleef_symbol(function, Capability::avx512));
  }
}

// tanh is deep enough for two vectors side by side.
TEST(InlineFunctions, AgreeAtSizesAroundTwoVectors) {
  const std::vector<std::vector<int64_t>> cases = {{0},  {1},  {15}, {16}, {31},
                                                   {32}, {33}, {70}, {300}};
  for (const std::string_view function : lower::kInlineFunctions) {
    expect_compiled_agrees(lower::function_kernel("f", function, Capability::avx512, true), cases);
  }
}

TEST(InlineFunctions, DeepStagesHaveALoopOverTwoVectors) {
  const auto printed = [](std::string_view function) {
    const Kernel kernel = lower::function_kernel("f", function, Capability::avx512, true);
    return c_source({&kernel, 1}, lower::c_target(Capability::avx512));
  };
  EXPECT_NE(printed("tanh").find("for (; j + 32 <= n; j += 32)"), std::string::npos);
  EXPECT_EQ(printed("exp").find("for (; j + 32 <= n; j += 32)"), std::string::npos);
}

}  // namespace inline_functions_test
}  // namespace antegrad::testing
