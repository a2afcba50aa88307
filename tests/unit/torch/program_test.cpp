// Graphs as lists of prepared calls.

#include "runtime/program.h"

#include <ATen/ATen.h>
#include <antegrad/error.h>
#include <antegrad/memory.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "support/bits.h"
#include "support/joint_graph.h"

namespace antegrad::testing {
namespace program_test {

using runtime::Program;

const ops::AttrTables kNoTables;

// relu(x @ y), with both results as outputs.
Graph product() {
  JointGraph b("product");
  const auto x = b.primal(dense({2, 3}));
  const auto y = b.primal(dense({3, 4}));
  const auto z = b.call("aten::mm.default", {x, y}, dense({2, 4}));
  b.result(z);
  b.result(b.call("aten::relu.default", {z}, dense({2, 4})));
  return b.finish();
}

TEST(Program, GivesOneTensorAnOutput) {
  const Program program(product(), kNoTables);
  EXPECT_EQ(program.input_count(), 2U);
  const auto x = at::randn({2, 3}), y = at::randn({3, 4});
  EXPECT_TRUE(same_bits(program.run({x, y}), {x.mm(y), x.mm(y).relu()}));
}

TEST(Program, RunsBelowAutograd) {
  const Program program(product(), kNoTables);
  const auto outputs = program.run({at::randn({2, 3}).requires_grad_(), at::randn({3, 4})});
  EXPECT_FALSE(outputs[0].requires_grad());
}

TEST(Program, ThreadsMayRunItAtOnce) {
  const Program program(product(), kNoTables);
  const auto x = at::randn({2, 3}), y = at::randn({3, 4});
  const auto expected = program.run({x, y});
  std::vector<std::vector<at::Tensor>> found(4);
  std::vector<std::thread> threads;
  for (auto& outputs : found) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) outputs = program.run({x, y});
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& outputs : found) EXPECT_TRUE(same_bits(outputs, expected));
}

TEST(Program, TensorsDieAtTheirLastUse) {
  constexpr int64_t kBytes = 1 << 20;
  constexpr int kCalls = 8;
  JointGraph b("chain");
  auto x = b.primal(dense({kBytes / 4}));
  for (int i = 0; i < kCalls; ++i) x = b.call("aten::neg.default", {x}, dense({kBytes / 4}));
  b.result(x);
  const Program program(b.finish(), kNoTables);
  const auto input = at::ones({kBytes / 4});
  const MemoryMeter meter;
  const auto outputs = program.run({input});
  EXPECT_EQ(meter.live_bytes(), kBytes);
  EXPECT_EQ(meter.peak_bytes(), 2 * kBytes);
}

TEST(Program, AnInputThatNobodyElseHoldsDiesToo) {
  constexpr int64_t kBytes = 1 << 20;
  JointGraph b("one");
  const auto x = b.primal(dense({kBytes / 4}));
  const auto y = b.call("aten::neg.default", {x}, dense({kBytes / 4}));
  b.result(b.call("aten::exp.default", {y}, dense({kBytes / 4})));
  const Program program(b.finish(), kNoTables);
  const MemoryMeter meter;
  std::vector<at::Tensor> inputs = {at::ones({kBytes / 4})};
  program.run(std::move(inputs));
  EXPECT_EQ(meter.peak_bytes(), 2 * kBytes);
}

TEST(Program, ListsAndTheirUndefinedEntries) {
  JointGraph b("lists");
  const auto x = b.primal(dense({3, 2}));
  const auto rows = b.primal(dense({2}));
  b.result(b.call("aten::cat.default", {x, x}, {attr::InputList{{true, true}}, IntExpr(0)},
                  dense({6, 2})));
  b.result(b.call("aten::index.Tensor", {x, rows}, {attr::Input{}, attr::InputList{{false, true}}},
                  dense({3, 2})));
  const Program program(b.finish(), kNoTables);
  const auto values = at::randn({3, 2});
  const auto columns = at::tensor({1, 0}, at::kLong);
  EXPECT_TRUE(
      same_bits(program.run({values, columns}),
                {at::cat({values, values}), values.index({at::indexing::Slice(), columns})}));
}

TEST(Program, AKernelErrorSaysOperatorAndLine) {
  const Program program(product(), kNoTables);
  const auto line_of = [](int32_t node) { return "model.cpp:" + std::to_string(40 + node); };
  try {
    program.run({at::randn({2, 5}), at::randn({3, 4})}, line_of);
    FAIL() << "shapes that do not fit were multiplied";
  } catch (const c10::Error& error) {
    const std::string text = error.what();
    for (const char* part : {"aten::mm", "model.cpp:40", "product"}) {
      EXPECT_NE(text.find(part), std::string::npos) << part << " is not in: " << text;
    }
  }
}

TEST(Program, RefusesAnOperatorThatDoesNotExist) {
  JointGraph b("unknown");
  b.result(b.call("nowhere::nothing.default", {b.primal(dense({2}))}, dense({2})));
  EXPECT_THROW(Program(b.finish(), kNoTables), GraphError);
}

}  // namespace program_test
}  // namespace antegrad::testing
