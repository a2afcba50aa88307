// What is known of kernels is kept for later processes, also that one of them is not used.

#include <antegrad/antegrad.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "exact_options.h"
#include "processes.h"
#include "support/bits.h"
#include "support/folder.h"
#include "support/kernels.h"

namespace antegrad::testing {
namespace kept_kernels_test {

TEST(KeptKernels, TrainInAProcessOfTheirOwn) {
  const char* lowering = std::getenv("ANTEGRAD_TEST_KEPT");
  if (lowering == nullptr) GTEST_SKIP() << "runs in a process of AreNeitherMadeNorTriedAgain";
  const auto options = Options(exact()).with_keep_slow_kernels(false).with_lowering(
      std::string(lowering) == "close" ? Lowering::close : Lowering::exact);
  auto step = compile(loss_of_rows, options);
  gradients_of_rows([&](const List& xs) { return step(xs); });
  EXPECT_EQ(step.report().eager_calls, 0);
}

TEST(KeptKernels, AreNeitherMadeNorTriedAgain) {
  if (!has_compiler()) GTEST_SKIP() << "no compiler";
  for (const std::string lowering : {"exact", "close"}) {
    const TemporaryFolder folder;
    const auto trained = [&] {
      const auto environment = std::string(kLogsKernels) + " ANTEGRAD_TEST_KEPT=" + lowering +
                               " XDG_CACHE_HOME=" + (folder / "caches");
      EXPECT_EQ(run_test("KeptKernels.TrainInAProcessOfTheirOwn", environment, folder / "log"), 0);
      return work_in(text_of(folder / "log"));
    };
    const auto first = trained(), second = trained();
    EXPECT_GT(first.compiled, 0) << text_of(folder / "log");
    EXPECT_GT(first.compared, 0);
    EXPECT_GT(first.measured, 0);
    EXPECT_EQ(second.graphs, first.graphs) << text_of(folder / "log");
    EXPECT_EQ(second.compiled, 0);
    EXPECT_EQ(second.compared, 0);
    EXPECT_EQ(second.measured, 0);
  }
}

}  // namespace kept_kernels_test
}  // namespace antegrad::testing
