// Kernels of the level `close`: what they leave out and do otherwise than eager, and how accurate
// they are beside float64.

#include <cmath>
#include <limits>
#include <random>

#include "group_kernels.h"
#include "lower/interpreter.h"
#include "lower/scalar.h"
#include "support/kernels.h"

namespace antegrad::testing {
namespace close_kernel_test {

using lower::Capability;
using lower::EagerCpu;
using lower::GroupKernel;

constexpr EagerCpu kTwoThreads{
    .capability = Capability::avx2, .onednn = lower::OneDnn::avx2, .threads = 2};

std::string close_text(const std::string& sections, const EagerCpu& cpu = kAvx2) {
  return text_of(sections, cpu, Level::close);
}

/// `nodes` over %0, %1, ... of one type; the last value is the result, and those in `results`.
std::string group(const std::string& type, int inputs, const std::string& nodes, int last,
                  const std::vector<int>& results = {}) {
  std::string text = "inputs\n";
  for (int i = 0; i < inputs; ++i)
    text += fmt::format("  %{}: {} primal argument {}\n", i, type, i);
  text += "nodes\n" + nodes + "outputs\n";
  for (const int result : results) text += fmt::format("  %{} result\n", result);
  return text + fmt::format("  %{} result\n", last);
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(CloseKernel, TheSameFormulaEverywhere) {
  const std::string sigmoid =
      group("f32[100]", 1, "  %1: f32[100] = aten::sigmoid.default(%0)\n", 1);
  EXPECT_TRUE(contains(text_of(sigmoid), "path"));
  EXPECT_FALSE(contains(close_text(sigmoid), "path"));
  EXPECT_FALSE(contains(close_text(sigmoid), "function expf"));
}

// Which zero is the larger one depends on where eager takes vectors.
TEST(CloseKernel, PathsWhereZerosDiffer) {
  const auto larger = [](const std::string& strides) {
    const std::string type = "f32[4, 100]" + strides;
    return close_text(
        "inputs\n  %0: " + type + " primal argument 0\n  %1: " + type +
        " primal argument 1\nnodes\n  %2: f32[4, 100] = aten::maximum.default(%0, %1)\n"
        "outputs\n  %2 result\n");
  };
  EXPECT_TRUE(contains(larger(""), "path"));
  const std::string strided = larger("{200, 2}");
  EXPECT_FALSE(contains(strided, "path"));
  EXPECT_TRUE(contains(strided, "maximum f32 %1 %0")) << strided;
}

// As small ones lie beside it, only of one element the error of oneDNN's formula counts.
TEST(CloseKernel, GeluOfOneHalfIsLibtorchs) {
  const auto slope = [](const std::string& type) {
    return close_text(
        group(type, 2, "  %2: " + type + " = aten::gelu_backward.default(%0, %1, \"none\")\n", 2));
  };
  EXPECT_TRUE(contains(slope("bf16[1]"), "erf"));
  EXPECT_FALSE(contains(slope("bf16[2]"), "function"));
}

TEST(CloseKernel, ValuesOfTheGroupAreNotRounded) {
  const std::string nodes =
      "  %2: bf16[8] = aten::mul.Tensor(%0, %1)\n"
      "  %3: bf16[8] = aten::sub.Tensor(%0, %2, scalar(1))\n"
      "  %4: bf16[8] = aten::mul.Tensor(%3, %2)\n";
  EXPECT_EQ(close_text(group("bf16[8]", 2, nodes, 4, {2})), R"(number n0 i64
buffer x0 bf16 read [1]
buffer x1 bf16 read [1]
buffer y0 bf16 write [1]
buffer y1 bf16 write [1]
elements [n0]
each
  %0 = load bf16 x0
  %1 = cast f32 %0
  %2 = load bf16 x1
  %3 = cast f32 %2
  %4 = mul f32 %1 %3
  %5 = neg f32 %1
  %6 = fma f32 %5 %3 %1
  %7 = mul f32 %6 %4
  %8 = cast bf16 %4 nan ffff
  store bf16 y0 %8
  %10 = cast bf16 %7 nan ffff
  store bf16 y1 %10
)");
}

// Somebody may split a number into a half and what is left.
TEST(CloseKernel, ConversionsRound) {
  const std::string nodes =
      "  %1: bf16[8] = aten::_to_copy.default(%0, dtype=bf16, layout=none, device=none, "
      "pin_memory=none, non_blocking=false, memory_format=none)\n"
      "  %2: f32[8] = aten::sub.Tensor(%0, %1, scalar(1))\n";
  const std::string text = close_text(group("f32[8]", 1, nodes, 2));
  EXPECT_TRUE(contains(text, "cast bf16")) << text;
}

// x * x - y * y is 0 where x is y.
TEST(CloseKernel, TwoProductsAreNotFused) {
  const std::string nodes =
      "  %2: f32[8] = aten::mul.Tensor(%0, %0)\n  %3: f32[8] = aten::mul.Tensor(%1, %1)\n"
      "  %4: f32[8] = aten::sub.Tensor(%2, %3, scalar(1))\n";
  EXPECT_FALSE(contains(close_text(group("f32[8]", 2, nodes, 4)), "fma"));
  const std::string one =
      "  %2: f32[8] = aten::mul.Tensor(%0, %0)\n"
      "  %3: f32[8] = aten::add.Tensor(%1, %2, scalar(1))\n";
  EXPECT_TRUE(contains(close_text(group("f32[8]", 2, one, 3)), "fma f32 %0 %0 %1"));
  const EagerCpu baseline{Capability::baseline, lower::OneDnn::off};
  EXPECT_FALSE(contains(close_text(group("f32[8]", 2, one, 3), baseline), "fma"));
}

std::string sums(const std::string& type, const std::string& to, const std::string& reduction) {
  return group(type, 1,
               fmt::format("  %1: {} = aten::sigmoid.default(%0)\n  %2: {} = aten::{}\n", type, to,
                           reduction),
               2);
}

TEST(CloseKernel, WhatDependedOnPositionsOrOrderHasAKernel) {
  for (const char* type : {"f32", "f64", "bf16", "f16"}) {
    const auto made = [&](const std::string& from, const std::string& to, const char* reduction) {
      const GroupKernel kernel =
          kernel_of(sums(type + from, type + to, reduction), kTwoThreads, Level::close);
      EXPECT_EQ(kernel.split, lower::ThreadSplit::rows);
      return to_text(kernel.kernel);
    };
    const std::string rows = made("[1001, 33]", "[1001]", "sum.dim_IntList(%1, [1], false, none)");
    EXPECT_TRUE(contains(rows, "fold pairwise")) << rows;
    EXPECT_FALSE(contains(rows, "path"));
    made("[1, 70000]", "[1]", "mean.dim(%1, [1], false, none)");
    made("[7000, 33]", "[33]", "sum.dim_IntList(%1, [0], false, none)");
    made("[70, 33]", "[33]", "amax.default(%1, [0], false)");
    made("[70, 33]", "[70, 33]", "_softmax.default(%1, 1, false)");
  }
}

// An operand in another order of memory, with tails that eager computes in other ways.
TEST(CloseKernel, OrdersOfMemoryMayBeMixed) {
  const std::string graph =
      "inputs\n  %0: f16[9, 33]{1, 9} primal argument 0\n  %1: f16[9, 33] primal argument 1\n"
      "nodes\n  %2: f16[9, 33]{1, 9} = aten::silu.default(%0)\n"
      "  %3: f16[9, 33] = aten::add.Tensor(%1, %2, scalar(0.3))\n  %4: f16[9, 33] = "
      "aten::gelu.default(%3, approximate=\"none\")\noutputs\n  %4 result\n";
  EXPECT_NE(reason_of(graph), "");
  const GroupKernel made = kernel_of(graph, kTwoThreads, Level::close);
  EXPECT_FALSE(contains(to_text(made.kernel), "path"));
}

// The derivative of gelu for AVX-512: polynomials of intervals.
TEST(CloseKernel, SlopesOfGeluAreAccurate) {
  const std::string graph =
      group("f32[4096]", 2, "  %2: f32[4096] = aten::gelu_backward.default(%0, %1, \"none\")\n", 2);
  EXPECT_FALSE(contains(close_text(graph), "call"));
  const EagerCpu cpu{Capability::avx512, lower::OneDnn::avx512};
  const GroupKernel made = kernel_of(graph, cpu, Level::close);
  std::vector<float> g(4096, 1), x(4096), y(4096);
  for (int i = 0; i < 4096; ++i) x[i] = static_cast<float>(i - 2048) / 250;
  x[0] = std::numeric_limits<float>::infinity();
  x[1] = std::nanf("");
  x[2] = -1e30F;
  x[3] = 1e30F;
  char* const buffers[] = {reinterpret_cast<char*>(g.data()), reinterpret_cast<char*>(x.data()),
                           reinterpret_cast<char*>(y.data())};
  for (const Capability capability : capabilities()) {
    const CompiledKernels compiled({&made.kernel, 1}, capability);
    ASSERT_EQ(compiled.error(), "");
    compiled.function(made.kernel.name)(buffers, made.numbers.data(), 0, 4096, 0);
    EXPECT_TRUE(std::isnan(y[0]) && std::isnan(y[1]));  // infinity times a density of 0
    EXPECT_EQ(y[2], 0);
    EXPECT_EQ(y[3], 1);
    for (int i = 4; i < 4096; ++i) {
      const double at = x[i];
      const double exact =
          0.5 + std::erf(at / std::sqrt(2)) / 2 + at * std::exp(-at * at / 2) / std::sqrt(2 * M_PI);
      EXPECT_NEAR(y[i], exact, 1.3e-7) << x[i];
    }
  }
}

std::string layer_norm(int rows, int n) {
  return fmt::format(
      "inputs\n  %0: f32[{0}, {1}] primal argument 0\n  %1: f32[{1}] primal argument 1\n"
      "  %2: f32[{1}] primal argument 2\nnodes\n  %3: f32[{0}, {1}], %4: f32[{0}, 1], "
      "%5: f32[{0}, 1] = aten::native_layer_norm.default(%0, [{1}], %1, %2, 1e-05)\n"
      "outputs\n  %3 result\n  %4 result\n  %5 result\n",
      rows, n);
}

TEST(CloseKernel, LayerNormKeepsTheVarianceOfALargeMean) {
  constexpr int kRows = 3, kSize = 1000;
  const GroupKernel made = kernel_of(layer_norm(kRows, kSize), kAvx2, Level::close);
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::map<ValueId, std::vector<float>> memory;
  std::vector<char*> addresses;
  for (const lower::GroupBuffer& buffer : made.buffers) {
    std::vector<float>& data = memory[buffer.value];
    data.resize(kRows * kSize);
    for (float& x : data) x = 1000 + normal(random);
    addresses.push_back(reinterpret_cast<char*>(data.data()));
  }
  interpret(made.kernel, addresses.data(), made.numbers.data(), 0, kRows, 0, {});
  const std::vector<float>& x = memory.at(ValueId(0));
  for (int i = 0; i < kRows; ++i) {
    double mean = 0, squares = 0;
    for (int j = 0; j < kSize; ++j) mean += x[i * kSize + j] / double{kSize};
    for (int j = 0; j < kSize; ++j) squares += std::pow(x[i * kSize + j] - mean, 2);
    EXPECT_NEAR(memory.at(ValueId(4))[i], mean, 1e-4);
    EXPECT_NEAR(memory.at(ValueId(5))[i], 1 / std::sqrt(squares / kSize + 1e-5), 1e-6);
  }
}

TEST(CloseKernel, GeneratedCodeHasTheInterpretersBits) {
  for (const Capability capability : {Capability::baseline, Capability::avx2, Capability::avx512}) {
    for (const int n : {2, 8, 31, 300}) {
      const GroupKernel made =
          kernel_of(layer_norm(4, n), {capability, lower::OneDnn::avx2}, Level::close);
      expect_compiled_agrees(made.kernel, {made.numbers});
    }
  }
}

// What is rounded to a half next needs no exponential and no quotient that are right to the last
// bit.
TEST(CloseKernel, NearlyRightFunctionsForHalvesOnAGpu) {
  const EagerCpu gpu{.capability = Capability::cuda};
  const auto text = [&](const std::string& type, Level level) {
    const std::string there = type + "[64] cuda:0";
    return text_of(group(there, 1, "  %1: " + there + " = aten::silu.default(%0)\n", 1), gpu,
                   level);
  };
  EXPECT_TRUE(contains(text("bf16", Level::close), "near_expf"));
  EXPECT_TRUE(contains(text("f16", Level::close), "near_quotient"));
  EXPECT_FALSE(contains(text("f32", Level::close), "near_"));
  EXPECT_FALSE(contains(text("bf16", Level::exact), "near_"));
}

}  // namespace close_kernel_test
}  // namespace antegrad::testing
