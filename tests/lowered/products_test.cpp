// Products of matrices and attention that others compute at the level `close`, with invented times.

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <antegrad/antegrad.h>
#include <antegrad/memory.h>
#include <gtest/gtest.h>

#include "compile/lowering.h"
#include "exact_options.h"
#include "lower/kernel.h"
#include "support/bits.h"
#include "training.h"

namespace antegrad::testing {
namespace products_test {

class Products : public ::testing::Test {
 protected:
  ~Products() override {
    compiler::set_kernel_fault(nullptr);
    compiler::set_kernel_times(std::nullopt);
  }
};

// A layer and its gradients: addmm, and products with a transposed first and second matrix.
at::Tensor layer(const List& xs) { return at::linear(xs[0], xs[1], xs[2]).tanh().sum(); }

List layer_inputs() {
  at::manual_seed(0);
  return {leaf({256, 96}), leaf({80, 96}), leaf({80})};
}

TEST_F(Products, AreOneDnnsWhereThatIsFasterAtCloseAlone) {
  if (!at::globalContext().userEnabledMkldnn() || !at::hasMKL()) {
    GTEST_SKIP() << "oneDNN or MKL is not there to choose from";
  }
  const auto close = Options().with_lowering(Lowering::close).with_verify_graphs(true);
  const auto expected = trained(layer, layer_inputs());
  const auto products = [&](const Options& options, kernels::RunTimes times) {
    compiler::set_kernel_times(times);
    auto step = compile(layer, options);
    const auto found = trained(step, layer_inputs());
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_TRUE(at::allclose(found[i], expected[i], 1e-4, 1e-4)) << i;
    }
    EXPECT_EQ(step.report().eager_calls, 0);
    return step.report().programs.at(0).other_products;
  };
  const kernels::RunTimes fast{.kernel = 1000, .library = 2000};
  const auto other = products(close, fast);
  ASSERT_GE(other.size(), 2U);  // a copy may take more memory than the step has
  EXPECT_EQ(other[0].product, "256x96 96x80 with bias");
  EXPECT_EQ(other[0].phase, "forward");
  EXPECT_EQ(other[0].library, "oneDNN");
  EXPECT_EQ(other[0].microseconds, 1);
  EXPECT_EQ(other[0].library_microseconds, 2);
  EXPECT_EQ(other[1].phase, "backward");
  EXPECT_TRUE(products(close, {.kernel = 950, .library = 1000}).empty());
  EXPECT_TRUE(products(exact(), fast).empty());
}

TEST_F(Products, AttentionIsOurOwnAtCloseAlone) {
  if (at::get_cpu_capability() != "AVX512" && at::get_cpu_capability() != "AVX2") {
    GTEST_SKIP() << "no kernels of attention for this CPU";
  }
  const auto attention = [](const List& xs) {
    return at::scaled_dot_product_attention(xs[0], xs[1], xs[2], {}, 0.0, /*is_causal=*/true)
        .square()
        .sum();
  };
  const auto inputs = [] {
    at::manual_seed(0);
    return List{leaf({2, 3, 40, 32}), leaf({2, 3, 40, 32}), leaf({2, 3, 40, 32})};
  };
  const auto expected = trained(attention, inputs());
  compiler::set_kernel_times(kernels::RunTimes{.kernel = 1000, .library = 2000});
  auto close =
      compile(attention, Options().with_lowering(Lowering::close).with_verify_graphs(true));
  const auto found = trained(close, inputs());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_TRUE(at::allclose(found[i], expected[i], 1e-4, 1e-4)) << i;
  }
  const auto report = close.report();
  EXPECT_EQ(report.eager_calls, 0);
  const auto& products = report.programs.at(0).other_products;
  ASSERT_EQ(products.size(), 2U) << report;
  EXPECT_EQ(products[0].library, "antegrad");
  EXPECT_EQ(products[0].product, "attention, causal, of 2x3x40x32, keys 40");
  EXPECT_EQ(products[1].phase, "backward");

  auto step = compile(attention, exact());
  EXPECT_TRUE(same_bits(trained(step, inputs()), expected));
  EXPECT_TRUE(step.report().programs.at(0).other_products.empty());
}

// The peak of a step, on inputs of its own.
template <class Step>
int64_t peak_of(Step& step, List (*inputs)()) {
  trained(step, inputs());  // compiles
  const auto again = inputs();
  const MemoryMeter meter;
  step(again).backward();
  return meter.peak_bytes();
}

// Copies of operands may not take a step over its peak without them.
TEST_F(Products, TakeNoMoreMemoryThanLibtorchs) {
  compiler::set_kernel_times(kernels::RunTimes{.kernel = 1000, .library = 2000});
  auto step = compile(layer, Options().with_lowering(Lowering::close));
  auto plain = compile(layer, Options().with_lowering(Lowering::off));
  EXPECT_LE(peak_of(step, layer_inputs), peak_of(plain, layer_inputs));
}

// A copy of the input would be larger than all that the step makes.
TEST_F(Products, TakeNoMoreMemoryAlsoWithoutGeneratedKernels) {
  const auto x = at::randn({4096, 64});
  const auto product = [&](const at::Tensor& w) { return x.t().mm(x.mm(w)); };
  const auto w = leaf({64, 16});
  // No kernel can be compiled, not even one that copies.
  compiler::set_kernel_fault([](lower::Kernel& kernel) { kernel.name = "no name"; });
  compiler::set_kernel_times(kernels::RunTimes{.kernel = 1000, .library = 2000});
  auto step = compile(product, Options().with_lowering(Lowering::close));
  auto plain = compile(product, Options().with_lowering(Lowering::off));
  const auto peak_of_call = [&](auto& callable) {
    callable(w);  // compiles
    const MemoryMeter meter;
    callable(w);
    return meter.peak_bytes();
  };
  const auto peak = peak_of_call(step), limit = peak_of_call(plain);
  EXPECT_LE(peak, limit);
  const auto program = step.report().programs.at(0);
  EXPECT_TRUE(program.generated_kernels.empty());
  EXPECT_FALSE(program.other_products.empty());
  EXPECT_EQ(step.report().eager_calls, 0);
}

}  // namespace products_test
}  // namespace antegrad::testing
