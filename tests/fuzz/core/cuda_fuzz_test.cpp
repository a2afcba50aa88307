// Random kernels: their CUDA code, run on the CPU, against the interpreter.

#include "random_kernel.h"
#include "support/cuda_kernels.h"
#include "support/long_tests.h"

namespace antegrad::testing {
namespace cuda_fuzz_test {

using lower::Kernel;

/// Sums are in the order of the threads.
bool has_sums(const Kernel& kernel) {
  return std::ranges::any_of(kernel.stages, [](const lower::Stage& stage) {
    const bool keeps_one =
        stage.fold.combine == lower::Op::min || stage.fold.combine == lower::Op::max ||
        stage.fold.combine == lower::Op::minimum || stage.fold.combine == lower::Op::maximum;
    return stage.kind == lower::StageKind::fold &&
           (stage.fold.order != lower::Order::lanes || !keeps_one ||
            stage.fold.lanes * stage.fold.accumulators != 1);
  });
}

/// In the interpreter a thread has some rows that follow each other, on a GPU a block has others.
bool has_sums_of_threads(const Kernel& kernel) {
  return std::ranges::any_of(kernel.buffers,
                             [](const lower::Buffer& buffer) { return !buffer.thread.is(0); });
}

TEST(CudaFuzz, CodeAgreesWithTheInterpreter) {
  if (!has_compiler()) GTEST_SKIP() << "no C compiler: there is no cc";
  const int wanted = long_tests() ? 300 : 12;
  constexpr int kCalls = 6;
  int compared = 0, rows = 0;
  for (uint64_t seed = 0; compared < wanted; ++seed) {
    ASSERT_LT(seed, static_cast<uint64_t>(wanted) * 500) << "few kernels have CUDA code";
    RandomKernel random(seed);
    const Kernel kernel = random.make("k" + std::to_string(seed));
    if (!lower::why_not_cuda(kernel).empty()) continue;
    if (has_sums(kernel) || has_sums_of_threads(kernel)) continue;
    const EmulatedCudaKernel compiled(kernel);
    ASSERT_EQ(compiled.error(), "") << "seed " << seed << "\n"
                                    << lower::to_text(kernel) << lower::cuda_source(kernel);
    for (int i = 0; i < kCalls; ++i) {
      const KernelArguments call(random.arguments(kernel, /*far=*/false).numbers);
      const auto found =
          run_difference(kernel, compiled.function(), call, seed + i, RandomKernel::functions());
      ASSERT_EQ(found, "") << "seed " << seed << ", call " << i << "\n"
                           << lower::to_text(kernel) << lower::cuda_source(kernel);
    }
    ++compared;
    rows += kernel.space == lower::Space::rows ? 1 : 0;
  }
  EXPECT_GT(rows, 0);
}

}  // namespace cuda_fuzz_test
}  // namespace antegrad::testing
