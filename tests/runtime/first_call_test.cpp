// The first calls of a process.

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/bits.h"

namespace antegrad::testing {
namespace first_call_test {

// The exit status: 0 if in all children the first `tanh` on two threads was equal to the second.
// A child begins without threads and without a call of `tanh`.
[[noreturn]] void exit_with_differences() {
  constexpr int kChildren = 600;
  int different = 0;
  for (int i = 0; i < kChildren; ++i) {
    const auto child = fork();
    if (child == 0) {
      at::set_num_threads(2);
      const auto x = at::linear(at::ones({256, 96}), at::ones({80, 96}) * 0.01);
      const auto first = x.tanh(), second = x.tanh();
      _exit(same_bits(first, second) ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (status != 0) ++different;
  }
  std::exit(different == 0 ? 0 : 1);
}

// Without antegrad's own first call, 7 % of processes differed on a Xeon.
TEST(FirstCallDeathTest, OfVectorFunctionsOnSeveralThreadsIsRight) {
  if (at::hasCUDA()) GTEST_SKIP() << "a forked child cannot use CUDA";
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a process that has not called libtorch yet
  EXPECT_EXIT(exit_with_differences(), ::testing::ExitedWithCode(0), "");
}

}  // namespace first_call_test
}  // namespace antegrad::testing
