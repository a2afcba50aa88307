// Which groups on a GPU become one kernel, and in what form.

#include "group_kernels.h"
#include "lower/cuda_printer.h"

namespace antegrad::testing {
namespace cuda_groups_test {

constexpr lower::EagerCpu kGpu{.capability = lower::Capability::cuda};

lower::GroupKernel on_gpu(const std::string& sections) {
  auto made = kernel_of(sections, kGpu, Level::close);
  EXPECT_EQ(lower::why_not_cuda(made.kernel), "");
  return made;
}

/// How many functions that run on their own the code has, with a plan for these sizes.
size_t functions_of(const lower::GroupKernel& made) {
  const auto plan = lower::cuda_plan(made.kernel, made.numbers.data());
  const std::string text = lower::cuda_source(made.kernel, plan);
  size_t count = 0;
  for (size_t at = 0; (at = text.find("__global__", at)) != std::string::npos; ++at) ++count;
  return count;
}

TEST(CudaGroups, TheGradientOfABiasIsOneKernelWithWhatComesBefore) {
  const auto made = on_gpu(R"(inputs
  %0: bf16[4096, 96] cuda:0 primal argument 0
  %1: bf16[4096, 96] cuda:0 primal argument 1
nodes
  %2: bf16[4096, 96] cuda:0 = aten::gelu_backward.default(%0, %1, approximate="none")
  %3: bf16[1, 96] cuda:0 = aten::sum.dim_IntList(%2, [0], true, dtype=none)
outputs
  %2 result
  %3 result
)");
  EXPECT_EQ(made.kernel.space, lower::Space::columns);
  EXPECT_EQ(made.kernel.stages.size(), 2U);  // all elements are stored where they are added
  EXPECT_EQ(functions_of(made), 2U);
  const auto launch = lower::cuda_launch(made.kernel, made.numbers.data());
  EXPECT_GT(launch.parts, 1);
  EXPECT_EQ(launch.scratch, launch.parts * 96 * 8);
}

TEST(CudaGroups, LayerNormsOfHalvesHaveStatisticsInFloat32) {
  const auto made = on_gpu(R"(inputs
  %0: bf16[4096, 768] cuda:0 primal argument 0
  %1: bf16[4096, 768] cuda:0 primal argument 1
  %2: f32[4096, 1] cuda:0 primal argument 2
  %3: f32[4096, 1] cuda:0 primal argument 3
  %4: bf16[768] cuda:0 primal argument 4
  %5: bf16[768] cuda:0 primal argument 5
nodes
  %6: bf16[4096, 768] cuda:0, %7: bf16[768] cuda:0, %8: bf16[768] cuda:0 = aten::native_layer_norm_backward.default(%0, %1, [768], %2, %3, %4, %5, [true, true, true])
outputs
  %6 result
  %7 result
  %8 result
)");
  const auto plan = lower::cuda_plan(made.kernel, made.numbers.data());
  EXPECT_EQ(plan, (lower::CudaPlan{.lanes = 8, .kept = 3, .warps = true}));
  EXPECT_EQ(functions_of(made), 2U);
}

TEST(CudaGroups, BatchNormsAddChannelsAndTheirSquares) {
  const auto made = on_gpu(R"(inputs
  %0: bf16[8, 16, 14, 14] cuda:0 primal argument 0
  %1: bf16[16] cuda:0 primal argument 1
  %2: bf16[16] cuda:0 primal argument 2
  %3: bf16[16] cuda:0 primal argument 3
  %4: bf16[16] cuda:0 primal argument 4
nodes
  %5: bf16[8, 16, 14, 14] cuda:0, %6: f32[16] cuda:0, %7: f32[16] cuda:0, %8: bf16[16] cuda:0, %9: bf16[16] cuda:0 = aten::_native_batch_norm_legit_functional.default(%0, %1, %2, %3, %4, true, 0.1, 1e-05)
  %10: bf16[8, 16, 14, 14] cuda:0 = aten::relu.default(%5)
outputs
  %10 result
  %6 result
  %7 result
  %8 result
  %9 result
)");
  EXPECT_EQ(made.kernel.inner, 2);
  EXPECT_EQ(functions_of(made), 1U);
}

TEST(CudaGroups, ALossOfHalvesReadsItsLogitsAlone) {
  const auto made = on_gpu(R"(inputs
  %0: bf16[512, 1000] cuda:0 primal argument 0
  %1: i64[512] cuda:0 primal argument 1
nodes
  %2: f32[512] cuda:0 = antegrad::cross_entropy_rows.default(%0, %1, -100)
outputs
  %2 result
)");
  EXPECT_EQ(made.buffers.size(), 3U);
  ASSERT_EQ(made.bounds.size(), 1U);
  EXPECT_EQ(made.bounds[0].end, 1000);
  EXPECT_EQ(made.bounds[0].other, -100);
}

TEST(CudaGroups, FewLongRowsHaveNone) {
  const auto made = made_of(graph_of(R"(inputs
  %0: f32[2, 500000] cuda:0 primal argument 0
nodes
  %1: f32[2] cuda:0 = aten::sum.dim_IntList(%0, [1], false, dtype=none)
outputs
  %1 result
)"),
                            kGpu, Level::close);
  ASSERT_TRUE(std::holds_alternative<lower::NoKernel>(made));
  EXPECT_EQ(std::get<lower::NoKernel>(made).node, 0);
}

}  // namespace cuda_groups_test
}  // namespace antegrad::testing
