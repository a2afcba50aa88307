// The sources of the metadata of an operator's results.

#include "capture/infer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <string>

#include "capture/kernel_call.h"
#include "support/bits.h"
#include "support/custom_ops.h"

namespace antegrad::testing {
namespace infer_test {

using capture::InferCounts;
using capture::ShapeSource;

TEST(Infer, AShapeFunctionComesFirst) {
  InferCounts counts;
  const auto found = capture::infer(ops::entry_of(Op::intern("aten::mm.default")),
                                    {at::ones({2, 3}), at::ones({3, 4})}, at::kCPU, counts);
  EXPECT_EQ(found.source, ShapeSource::shape_function);
  EXPECT_EQ(counts.shape_functions, 1);
  ASSERT_EQ(found.specs.size(), 1U);
  EXPECT_EQ(at::IntArrayRef(found.specs[0].sizes), at::IntArrayRef({2, 4}));
  EXPECT_TRUE(counts.slow.empty());
}

TEST(Infer, ThenTheMetaKernel) {
  InferCounts counts;
  const auto& entry = ops::entry_of(find_op("cube_meta"));
  const auto found = capture::infer(entry, {at::ones({2, 3})}, at::kCPU, counts);
  EXPECT_EQ(found.source, ShapeSource::meta_kernel);
  EXPECT_EQ(counts.meta_kernels, 1);
  EXPECT_EQ(found.specs.at(0).device, at::kCPU) << "of the call, not meta";
  EXPECT_EQ(counts.slow.at(entry.op.name()), 1);
}

TEST(Infer, ThenTheRealKernelOnce) {
  InferCounts counts;
  const auto& entry = ops::entry_of(find_op("cube_cpu"));
  const auto generator = generator_state();
  for (int i = 0; i < 3; ++i) {
    const auto found = capture::infer(entry, {at::ones({5, 7})}, at::kCPU, counts);
    EXPECT_EQ(found.source, ShapeSource::real_kernel);
    EXPECT_EQ(at::IntArrayRef(found.specs.at(0).sizes), at::IntArrayRef({5, 7}));
  }
  EXPECT_EQ(counts.real_kernels + counts.memoised, 3);
  EXPECT_LE(counts.real_kernels, 1);
  EXPECT_TRUE(same_bits(generator_state(), generator));
}

TEST(Infer, ArgumentsThatDoNotFitAreTheOperatorsOwnError) {
  InferCounts counts;
  EXPECT_THROW(capture::infer(ops::entry_of(Op::intern("aten::mm.default")),
                              {at::ones({2, 3}), at::ones({2, 3})}, at::kCPU, counts),
               c10::Error);
}

TEST(KernelCall, ArgumentsInWords) {
  const auto text =
      capture::arguments_text(ops::entry_of(find_op("scale_")), {at::ones({2, 3}), 0.5});
  for (const char* part : {"Float[2, 3]", "[3, 1]", "cpu", "0.5"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in: " << text;
  }
}

}  // namespace infer_test
}  // namespace antegrad::testing
