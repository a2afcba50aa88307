// Comparing and measuring kernels takes memory beside the program's. Where there is none, nothing
// is lost.

#include <ATen/ATen.h>
#include <antegrad/antegrad.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "compile/lowering.h"
#include "exact_options.h"
#include "support/bits.h"
#include "support/failing_memory.h"
#include "support/kernels.h"
#include "training.h"

namespace antegrad::testing {
namespace proof_memory_test {

at::Tensor chain(const List& xs) { return (xs[0] * xs[1] + xs[2]).sigmoid() * xs[1]; }

List three(int64_t rows) {
  at::manual_seed(0);
  return {at::randn({rows, 65}), at::randn({rows, 65}), at::randn({rows, 65})};
}

class ProofMemory : public ::testing::TestWithParam<Lowering> {
 protected:
  void SetUp() override {
    if (!has_compiler()) GTEST_SKIP() << "no compiler";
  }
  ~ProofMemory() override { compiler::set_kernel_fault(nullptr); }
};

TEST_P(ProofMemory, ThatIsMissingCostsTheKernelOfThisSizeAlone) {
  const FailingMemory memory;
  int not_compared = 0;
  for (const int64_t place : {0, 1, 2, 5, 9, 14, 20, 40, 60}) {
    SCOPED_TRACE(place);
    // A kernel is printed before it is measured and compared.
    bool armed = true;
    compiler::set_kernel_fault([&](lower::Kernel&) {
      if (std::exchange(armed, false)) FailingMemory::fail_after(place);
    });
    auto step = compile(chain, exact().with_lowering(GetParam()));
    const auto inputs = three(33), before = clone_all(inputs);
    const at::Tensor found = step(inputs);
    EXPECT_TRUE(FailingMemory::has_failed());
    EXPECT_TRUE(same_bits(inputs, before));
    EXPECT_TRUE(at::allclose(found, chain(inputs), 1e-6, 1e-6));
    const auto report = step.report();
    EXPECT_EQ(report.eager_calls, 0);
    for (const auto& [reason, operators] : report.programs.at(0).not_generated) {
      not_compared += reason.find("could not be compared") != std::string::npos;
    }
    // Another size may find the memory.
    const auto others = three(40);
    EXPECT_TRUE(at::allclose(step(others), chain(others), 1e-6, 1e-6));
    EXPECT_EQ(step.report().programs.at(1).generated_kernels.size(), 1U) << step.report();
  }
  // Of a close kernel, the exact one is tried next.
  EXPECT_GE(not_compared, GetParam() == Lowering::exact ? 1 : 0);
}

INSTANTIATE_TEST_SUITE_P(All, ProofMemory, ::testing::Values(Lowering::exact, Lowering::close),
                         [](const auto& info) {
                           return info.param == Lowering::exact ? "exact" : "close";
                         });

}  // namespace proof_memory_test
}  // namespace antegrad::testing
