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

// Columns become rows, in squares and what is left of them, also of a part of a larger matrix.
TEST(OwnKernels, RestrideTransposes) {
  for (const auto& [rows, columns, more] :
       {std::tuple(1, 1, 0), {31, 33, 0}, {64, 32, 0}, {200, 1000, 0}, {70, 90, 7}}) {
    const auto x = at::randn({columns, rows + more}).slice(1, 0, rows).t();
    const auto y = call(ops::restride_operator(), {x, std::vector<int64_t>{columns, 1}});
    EXPECT_EQ(y.strides(), at::IntArrayRef({columns, 1}));
    EXPECT_TRUE(same_bits(y, x.contiguous())) << rows << " " << columns;
  }
}

TEST(OwnKernels, AProductByOneDnnIsNearLibtorchs) {
  const auto product = op("antegrad::onednn_product");
  const auto a = at::randn({37, 129}), b = at::randn({129, 65}), bias = at::randn({65});
  const auto exact = at::mm(a.to(at::kDouble), b.to(at::kDouble));
  for (const auto& second : {b, b.t().contiguous().t()}) {
    const auto plain = call(product, {a, second, c10::IValue(), std::vector<int64_t>{37, 65}});
    EXPECT_LT((plain - exact).abs().max().item<double>(), 1e-4);
    const auto biased = call(product, {a, second, bias, std::vector<int64_t>{37, 65}});
    EXPECT_LT((biased - exact - bias).abs().max().item<double>(), 1e-4);
    EXPECT_TRUE(biased.is_contiguous());
  }
}

TEST(OwnKernels, AProductWithBiasIsLibtorchs) {
  const auto a = at::randn({36, 129}), b = at::randn({129, 65}), bias = at::randn({65});
  const auto found =
      call(op("antegrad::biased_product"), {a, b, bias, std::vector<int64_t>{4, 9, 65}});
  EXPECT_TRUE(same_bits(found, at::addmm(bias, a, b).view({4, 9, 65})));
}

}  // namespace own_kernels_test
}  // namespace antegrad::testing
