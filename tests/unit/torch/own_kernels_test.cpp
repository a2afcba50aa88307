#include "ops/own_kernels.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <gtest/gtest.h>

#include "ops/op_table.h"
#include "support/bits.h"

namespace antegrad::testing {
namespace own_kernels_test {

c10::OperatorHandle op(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
}

at::Tensor call(const c10::OperatorHandle& op, torch::jit::Stack stack) {
  op.callBoxed(stack);
  return stack.at(0).toTensor();
}

TEST(OwnKernels, MostOperatorsKeepTheirs) {
  EXPECT_EQ(ops::entry_of(op("aten::mm")).handle, op("aten::mm"));
}

TEST(OwnKernels, AsStridedScatterTakesWhatIsNotContiguousAndRequiresGrad) {
  const auto self = at::zeros({3, 2}).t().requires_grad_();
  const auto source = at::ones({2});
  const auto kernel = ops::entry_of(op("aten::as_strided_scatter")).handle;
  EXPECT_NE(kernel, op("aten::as_strided_scatter"));
  const at::NoGradGuard no_grad;
  const auto found =
      call(kernel, {self, source, std::vector<int64_t>{2}, std::vector<int64_t>{1}, c10::IValue()});
  const auto expected = at::as_strided_scatter(self.detach(), source, {2}, {1});
  EXPECT_TRUE(same_bits(found, expected));
}

TEST(OwnKernels, RestrideCopiesIntoMemoryWithTheStrides) {
  const auto x = at::arange(6, at::kFloat).view({2, 3});
  const auto y = call(ops::restride_operator(), {x, std::vector<int64_t>{1, 2}});
  EXPECT_EQ(y.strides(), at::IntArrayRef({1, 2}));
  EXPECT_TRUE(at::equal(x, y));
  EXPECT_FALSE(y.is_alias_of(x));
}

}  // namespace own_kernels_test
}  // namespace antegrad::testing
