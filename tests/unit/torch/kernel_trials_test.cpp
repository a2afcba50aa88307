// Measurements of kernels: seconds and scratch memory, by node.

#include "measure/measure.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "support/bits.h"
#include "support/joint_graph.h"

namespace antegrad::testing {
namespace kernel_trials_test {

const ops::AttrTables kNoTables;

TEST(KernelTimes, KernelsTakeTimeAndViewsTakeNone) {
  JointGraph b("times");
  const auto x = b.primal(dense({64, 64}));
  const auto turned = b.view("aten::t.default", x, {}, dense({64, 64}));
  b.result(b.call("aten::mm.default", {x, turned}, dense({64, 64})));
  const auto seconds = measuring::measure(b.finish(), kNoTables, {.seconds = true}).seconds;
  ASSERT_EQ(seconds.size(), 2U);
  EXPECT_EQ(seconds[0], 0);
  EXPECT_GT(seconds[1], 0);
}

TEST(Scratch, MemoryBeyondTheResultsIsCounted) {
  constexpr int64_t kRows = 64, kColumns = 1024;
  JointGraph b("scratch");
  const auto x = b.primal(dense({kRows, kColumns}));
  b.result(b.call("aten::neg.default", {x}, dense({kRows, kColumns})));
  b.result(
      b.call("aten::logsumexp.default", {x}, {attr::Input{}, Shape{1}, false}, dense({kRows})));
  const auto bytes = measuring::measure(b.finish(), kNoTables, {.scratch = true}).scratch;
  ASSERT_EQ(bytes.size(), 2U);
  EXPECT_EQ(bytes[0], 0);
  // exp(x - max) is as large as x.
  EXPECT_GE(bytes[1], kRows * kColumns * 4);
}

TEST(Scratch, MeasuringADrawLeavesTheGeneratorAsItWas) {
  JointGraph b("draws");
  const auto x = b.primal(dense({4}));
  b.draw("aten::bernoulli.p", {x}, {attr::Input{}, 0.5, attr::None{}}, std::vector{dense({4})});
  ops::AttrTables tables;
  tables.generators.emplace_back();  // the default one
  const auto state = at::globalContext().defaultGenerator(at::kCPU).clone();
  measuring::measure(b.finish(), tables, {.scratch = true});
  EXPECT_TRUE(same_bits(at::rand({3}), at::rand({3}, state)));
}

// Kernels that refuse zeros: CUDA's end the device.
TEST(KernelTimes, KernelsAreTriedOnDataOfTheirDomain) {
  const auto pivots = [] {
    auto meta = dense({2, 3});
    meta.dtype = DType::i32;
    return meta;
  }();
  JointGraph b("domains");
  const auto x = b.primal(dense({2, 3, 3})), p = b.primal(pivots);
  const auto weights = b.primal(dense({2, 5}));
  const auto expanded = b.primal([] {
    auto meta = dense({2, 3, 3});
    meta.strides[0] = 0;
    return meta;
  }());
  auto drawn = dense({2, 1});
  drawn.dtype = DType::i64;
  b.draw("aten::multinomial.default", {weights}, {attr::Input{}, IntExpr(1), false, attr::None{}},
         std::vector{drawn});
  b.result(b.call("aten::cholesky.default", {x}, {attr::Input{}, false}, dense({2, 3, 3})));
  b.result(b.call("aten::cholesky.default", {expanded}, {attr::Input{}, true}, dense({2, 3, 3})));
  b.call("aten::lu_unpack.default", {x, p}, {attr::Input{}, attr::Input{}, true, true},
         std::vector{dense({2, 3, 3}), dense({2, 3, 3}), dense({2, 3, 3})});
  // Lengths and targets have to fit each other: never tried.
  b.call("aten::repeat_interleave.self_int", {x},
         {attr::Input{}, IntExpr(2), attr::None{}, attr::None{}}, std::vector{dense({36})});
  ops::AttrTables tables;
  tables.generators.emplace_back();  // the default one
  const auto seconds = measuring::measure(b.finish(), tables, {.seconds = true}).seconds;
  ASSERT_EQ(seconds.size(), 5U);
  for (int node = 0; node < 4; ++node) EXPECT_GT(seconds[node], 0) << node;
  EXPECT_EQ(seconds[4], -1);
}

}  // namespace kernel_trials_test
}  // namespace antegrad::testing
