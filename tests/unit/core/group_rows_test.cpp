// Groups with reductions: the IR of telling cases, numbers against plain loops, refusals.

#include <gmock/gmock.h>

#include <cmath>
#include <map>

#include "group_kernels.h"
#include "lower/group_kernel.h"
#include "support/kernels.h"
#include "support/long_tests.h"

namespace antegrad::testing {
namespace group_rows_test {

using lower::Capability;
using lower::EagerCpu;
using lower::GroupKernel;
using lower::NoKernel;
using lower::ThreadSplit;
using ::testing::HasSubstr;

constexpr EagerCpu kTwoThreads{
    .capability = Capability::avx2, .onednn = lower::OneDnn::avx2, .threads = 2};

/// One input x, %0, of a type; nodes; %1 is the result.
std::string one(const std::string& type, const std::string& nodes) {
  return "inputs\n  %0: " + type + " primal argument 0\nnodes\n" + nodes + "outputs\n  %1 result\n";
}

TEST(GroupRows, SoftmaxIsTwoFoldsAndALoop) {
  EXPECT_EQ(text_of(one("f32[5, 7]", "  %1: f32[5, 7] = aten::_softmax.default(%0, -1, false)\n"),
                    {Capability::baseline, lower::OneDnn::off}),
            R"(number n0 i64
number n1 i64
number x0_0 i64
number y0_0 i64
function expf f32 1 lane expf
buffer x0 f32 read [x0_0, 1]
buffer y0 f32 write [y0_0, 1]
rows [n0, n1]
fold lanes 8 1 sequence maximum
  %0 = accumulator f32 bits ff800000
  %1 = load f32 x0
  %2 = maximum f32 %0 %1
  yield %2
  %3 = result f32
fold lanes 8 1 sequence add
  %4 = accumulator f32 -0
  %5 = load f32 x0
  %6 = sub f32 %5 %3
  %7 = call f32 expf %6
  %8 = add f32 %4 %7
  yield %8
  %9 = result f32
each
  %10 = load f32 x0
  %11 = sub f32 %10 %3
  %12 = call f32 expf %11
  %13 = const f32 1
  %14 = div f32 %13 %9
  %15 = mul f32 %12 %14
  store f32 y0 %15
)");
}

/// A residual connection in front of a layer normalisation, and a bias behind it.
std::string normalised(const std::string& n) {
  const std::string whole = "f32[6, " + n + "]";
  return "inputs\n  %0: " + whole + " primal argument 0\n  %1: " + whole +
         " primal argument 1\n  %2: f32[" + n + "] primal argument 2\nnodes\n  %3: " + whole +
         " = aten::add.Tensor(%0, %1, scalar(1))\n  %4: " + whole +
         ", %5: f32[6, 1], %6: f32[6, 1] = aten::native_layer_norm.default(%3, [" + n +
         "], %2, none, 1e-05)\n  %7: " + whole +
         " = aten::mul.Tensor(%4, %1)\noutputs\n  %3 result\n  %5 result\n  %6 result\n"
         "  %7 result\n";
}

TEST(GroupRows, LayerNormIsTheMeanAndDeviationOfWhatItsGroupMakes) {
  const GroupKernel made = kernel_of(normalised("50"));
  std::map<int32_t, std::vector<float>> memory;
  for (const int32_t value : {0, 1, 3, 7}) memory[value].resize(300);
  memory[2].resize(50);
  memory[5].resize(6);
  memory[6].resize(6);
  for (int i = 0; i < 300; ++i) {
    memory[0][i] = static_cast<float>(i * 37 % 101) * 0.25F;
    memory[1][i] = static_cast<float>(i * 11 % 53) - 20;
  }
  for (int j = 0; j < 50; ++j) memory[2][j] = static_cast<float>(j) / 16;
  std::vector<char*> buffers;
  for (const lower::GroupBuffer& buffer : made.buffers) {
    buffers.push_back(reinterpret_cast<char*>(memory.at(buffer.value.index()).data()));
  }
  interpret(made.kernel, buffers.data(), made.numbers.data(), 0, 6, 0);
  for (int i = 0; i < 6; ++i) {
    double sum = 0;
    double squares = 0;
    for (int j = 0; j < 50; ++j) sum += memory[0][i * 50 + j] + memory[1][i * 50 + j];
    const double mean = sum / 50;
    for (int j = 0; j < 50; ++j) {
      squares += std::pow(memory[0][i * 50 + j] + memory[1][i * 50 + j] - mean, 2);
    }
    const double rstd = 1 / std::sqrt(squares / 50 + 1e-5);
    EXPECT_NEAR(memory[5][i], mean, 1e-5);
    EXPECT_NEAR(memory[6][i], rstd, 1e-6);
    for (int j = 0; j < 50; ++j) {
      const double x = memory[0][i * 50 + j] + memory[1][i * 50 + j];
      EXPECT_EQ(memory[3][i * 50 + j], static_cast<float>(x));
      EXPECT_NEAR(memory[7][i * 50 + j], (x - mean) * rstd * memory[2][j] * memory[1][i * 50 + j],
                  1e-4);
    }
  }
}

/// A residual stream whose memory is transposed, as behind the patches of a vision transformer.
constexpr std::string_view kTransposedStream = R"(inputs
  %0: f32[2, 40, 24]{960, 1, 40} primal argument 0
  %1: f32[2, 40, 24] primal argument 1
  %2: f32[24] primal argument 2
  %3: f32[24] primal argument 3
nodes
  %4: f32[2, 40, 24]{960, 1, 40} = aten::add.Tensor(%0, %1, scalar(1))
  %5: f32[2, 40, 24], %6: f32[2, 40, 1], %7: f32[2, 40, 1] = aten::native_layer_norm.default(%4, [24], %2, %3, 1e-05)
outputs
  %4 result
  %5 result
  %6 result
  %7 result
)";

TEST(GroupRows, RowsLieAsTheResultOfAnOperatorOverRows) {
  const std::string text = text_of(std::string(kTransposedStream));
  EXPECT_THAT(text, HasSubstr("buffer x0 f32 read [x0_0, 1, x0_2]\n"));
  EXPECT_THAT(text, HasSubstr("buffer y2 f32 write [y2_0, 1, y2_2]\n"));
  EXPECT_THAT(text, HasSubstr("rows [n0, n1, n2]\n"));
}

TEST(GroupRows, GeneratedCodeHasTheInterpretersBits) {
  for (const Capability capability : {Capability::baseline, Capability::avx2}) {
    for (const char* n : {"2", "8", "31", "300"}) {
      const GroupKernel made = kernel_of(normalised(n), {capability, lower::OneDnn::avx2});
      expect_compiled_agrees(made.kernel, {made.numbers});
    }
  }
}

TEST(GroupRows, OtherSizesHaveTheSameKernel) {
  EXPECT_EQ(kernel_of(normalised("50")).key, kernel_of(normalised("77")).key);
}

TEST(GroupRows, AnyRowsCanBeSplitAmongThreads) {
  EXPECT_EQ(kernel_of(normalised("50")).split, ThreadSplit::rows);
  EXPECT_EQ(lower::elements_of_a_thread(ThreadSplit::rows, 100, 3), 34);
  EXPECT_EQ(lower::elements_of_a_thread(ThreadSplit::whole, 100, 3), 100);
}

std::string softmax_backward(const std::string& type) {
  return "inputs\n  %0: " + type + " primal argument 0\n  %2: " + type +
         " primal argument 1\nnodes\n  %1: " + type +
         " = aten::_softmax_backward_data.default(%0, %2, 1, f32)\noutputs\n  %1 result\n";
}

// ATen's code for one thread fuses the products of the last, partial vector.
TEST(GroupRows, SoftmaxBackwardDependsOnThreads) {
  const auto fuses = [](const std::string& type, const EagerCpu& cpu) {
    return text_of(softmax_backward(type), cpu).find("fma") != std::string::npos;
  };
  EXPECT_TRUE(fuses("f32[5, 7]", kAvx2));
  EXPECT_FALSE(fuses("f32[5, 7]", kTwoThreads));
  EXPECT_TRUE(fuses("f32[1, 7]", kTwoThreads));
}

// Its first input is a number.
TEST(GroupRows, TheGradientOfClassesHasAKernelOnSeveralThreads) {
  EXPECT_EQ(reason_of("inputs\n  %0: f32[] primal argument 0\n  %1: f32[4, 9] primal argument 1\n"
                      "  %2: i64[4] primal argument 2\n  %3: f32[] primal argument 3\nnodes\n"
                      "  %4: f32[4, 9] = aten::nll_loss_backward.default(%0, %1, %2, none, 2, 0, "
                      "%3)\noutputs\n  %4 result\n",
                      kTwoThreads),
            "");
}

// A dimension may be named, of which it has none.
TEST(GroupRows, TheSumOfANumberHasNoKernel) {
  EXPECT_THAT(reason_of("inputs\n  %0: f32[] primal argument 0\nnodes\n"
                        "  %1: f32[] = aten::sigmoid.default(%0)\n"
                        "  %2: f32[] = aten::sum.dim_IntList(%1, [-1], false, none)\n"
                        "outputs\n  %2 result\n",
                        kTwoThreads),
              HasSubstr("reduces no dimension"));
}

/// A sigmoid, whose last elements are computed by other code, and the sums of its rows.
std::string sigmoid_sums(int rows, int n) {
  const std::string size = fmt::format("f32[{}, {}]", rows, n);
  return fmt::format(
      "inputs\n  %0: {0} primal argument 0\nnodes\n  %2: {0} = aten::sigmoid.default(%0)\n"
      "  %1: f32[{1}] = aten::sum.dim_IntList(%2, [1], false, none)\noutputs\n  %1 result\n",
      size, rows);
}

TEST(GroupRows, EndsOfPointwiseNodesAreEagers) {
  const auto path = [](int rows, int n, const EagerCpu& cpu) {
    const GroupKernel made = kernel_of(sigmoid_sums(rows, n), cpu);
    const bool found = to_text(made.kernel).find(" block 16 over 2\n") != std::string::npos;
    EXPECT_EQ(made.split, found ? ThreadSplit::whole : ThreadSplit::rows);
    return found;
  };
  EXPECT_TRUE(path(5, 7, kAvx2));    // one row of 35 elements
  EXPECT_FALSE(path(5, 32, kAvx2));  // whole blocks
  EXPECT_TRUE(path(5, 7, kTwoThreads));
  EXPECT_FALSE(path(1024, 64, kTwoThreads));
  EXPECT_EQ(reason_of(sigmoid_sums(1001, 33), kTwoThreads),
            "0: aten::sigmoid.default depends on positions, and ran in other rows, or in parts "
            "that are no whole rows");
}

/// The gradient of a bias: what passes a relu, added over the rows, and written itself.
std::string bias_gradient(const std::string& type, const std::string& sums) {
  return fmt::format(
      "inputs\n  %0: {0} primal argument 0\n  %1: {0} primal argument 1\nnodes\n"
      "  %2: {0} = aten::threshold_backward.default(%0, %1, scalar(0))\n"
      "  %3: {1} = aten::sum.dim_IntList(%2, [0], true, none)\noutputs\n  %2 result\n"
      "  %3 result\n",
      type, sums);
}

TEST(GroupRows, SumsOverTheFirstDimensionAreColumns) {
  const std::string text = text_of(bias_gradient("f32[40, 64]", "f32[1, 64]"));
  EXPECT_NE(text.find("columns [n0, n1]\nfold columns 8 1\n"), std::string::npos) << text;
  // What the fold adds is stored there, not computed again.
  EXPECT_EQ(text.find("\neach\n"), std::string::npos) << text;
  for (const char* n : {"3", "7", "36", "150"}) {
    const std::string size = n;
    const GroupKernel made =
        kernel_of(bias_gradient("f32[40, " + size + "]", "f32[1, " + size + "]"));
    expect_compiled_agrees(made.kernel, {made.numbers});
  }
}

TEST(GroupRows, ColumnsOfAViewOfWhatTheGroupMakes) {
  const GroupKernel made = kernel_of(
      "inputs\n  %0: f32[4, 10, 64] primal argument 0\nnodes\n"
      "  %1: f32[4, 10, 64] = aten::relu.default(%0)\n"
      "  %2: f32[40, 64] &1 = aten::view.default(%1, [40, 64])\n"
      "  %3: f32[1, 64] = aten::sum.dim_IntList(%2, [0], true, none)\noutputs\n  %1 result\n"
      "  %3 result\n");
  EXPECT_EQ(made.kernel.space, lower::Space::columns);
  expect_compiled_agrees(made.kernel, {made.numbers});
}

/// The largest elements of rows of zeros of both signs.
std::string largest_zeros(const std::string& type, int n) {
  return fmt::format(
      "inputs\n  %0: {0}[9, {1}] primal argument 0\nnodes\n"
      "  %1: {0}[9, {1}] = aten::mul.Scalar(%0, scalar(0))\n"
      "  %2: {0}[9] = aten::amax.default(%1, [1], false)\noutputs\n  %2 result\n",
      type, n);
}

TEST(GroupRows, TheSignOfTheLargestZeroIsThatOfItsPlace) {
  for (const char* type : {"f32", "bf16", "f16"}) {
    for (const int n : long_tests() ? std::vector{3, 31, 32, 64, 75, 200} : std::vector{31, 75}) {
      const GroupKernel made = kernel_of(largest_zeros(type, n));
      expect_compiled_agrees(made.kernel, {made.numbers});
    }
  }
  EXPECT_NE(text_of(largest_zeros("f32", 31)).find("fold blocks 8 4 maximum\n"), std::string::npos);
  EXPECT_NE(text_of(largest_zeros("f16", 31)).find("fold blocks 16 4 maximum\n"),
            std::string::npos);
}

// Of accumulators the last zero counts, of lanes the first one, and it is kept by those beyond.
TEST(GroupRows, LargestZerosAreEagers) {
  const GroupKernel made = kernel_of(largest_zeros("f32", 33));
  const auto sign_with_positive_at = [&](const std::vector<size_t>& places) {
    std::vector<float> x(33, -1);
    std::vector<float> result(9);
    for (const size_t place : places) x[place] = 1;
    std::vector<char*> buffers = {reinterpret_cast<char*>(x.data()),
                                  reinterpret_cast<char*>(result.data())};
    interpret(made.kernel, buffers.data(), made.numbers.data(), 0, 1, 0);
    EXPECT_EQ(result[0], 0);
    return std::signbit(result[0]) ? '-' : '+';
  };
  EXPECT_EQ(sign_with_positive_at({}), '-');
  EXPECT_EQ(sign_with_positive_at({24}), '+');  // lane 0 of the last vector
  EXPECT_EQ(sign_with_positive_at({0, 8, 16}), '-');
  EXPECT_EQ(sign_with_positive_at({25, 31, 32}), '-');
}

// A sum of halves adds two vectors of f32 first; a mean is that of elements widened before.
TEST(GroupRows, SumsAndMeansOfHalvesHaveOrdersOfTheirOwn) {
  const auto fold = [](const std::string& call) {
    const std::string text = text_of(
        "inputs\n  %0: f16[9, 40] primal argument 0\nnodes\n"
        "  %1: f16[9] = aten::" +
        call + "(%0, [1], false, none)\noutputs\n  %1 result\n");
    return text.substr(text.find("fold"), 16);
  };
  EXPECT_EQ(fold("sum.dim_IntList"), "fold cascade 8 2");
  EXPECT_EQ(fold("mean.dim"), "fold cascade 8 1");
}

// Columns are the inner dimension in memory, but the outer one of the kernel.
TEST(GroupRows, ARangeInAKernelOverColumnsCountsItsOwnDimension) {
  const GroupKernel made = kernel_of(
      "inputs\n  %0: f32[6, 16] primal argument 0\nnodes\n"
      "  %1: f32[16] = aten::arange.default(scalar(16), f32, none, none, none)\n"
      "  %2: f32[6, 16] = aten::mul.Tensor(%0, %1)\n"
      "  %3: f32[16] = aten::sum.dim_IntList(%2, [0], false, none)\noutputs\n  %3 result\n");
  std::vector<float> x(6 * 16, 1);
  std::vector<float> sums(16);
  std::vector<char*> buffers = {reinterpret_cast<char*>(x.data()),
                                reinterpret_cast<char*>(sums.data())};
  interpret(made.kernel, buffers.data(), made.numbers.data(), 0, 16, 0);
  for (size_t i = 0; i < 16; ++i) EXPECT_EQ(sums[i], static_cast<float>(6 * i));
}

TEST(GroupRows, RefusalsSayWhy) {
  EXPECT_EQ(reason_of(one("f32[5, 7]", "  %1: f32[5, 7] = aten::_softmax.default(%0, 0, false)\n")),
            "0: aten::_softmax.default has arguments for which there is no recipe: @dim");
  EXPECT_EQ(reason_of(one("f64[5, 7]", "  %1: f64[5, 7] = aten::_softmax.default(%0, 1, false)\n")),
            "0: softmax has no recipe for f64");
  EXPECT_EQ(
      reason_of(one("f32[40000]", "  %1: f32[] = aten::sum.default(%0, none)\n"), kTwoThreads),
      "0: aten::sum.default adds the elements of one row on several threads");
  EXPECT_EQ(reason_of(one("f32[3, 4, 5]",
                          "  %1: f32[3, 5] = aten::sum.dim_IntList(%0, [1], false, none)\n")),
            "0: aten::sum.dim_IntList reduces dimensions that lie between others in memory");
  EXPECT_EQ(reason_of(one("f32[3, 5]", "  %1: f32[5] = aten::amax.default(%0, [0], false)\n")),
            "0: aten::amax.default reduces other dimensions than the innermost ones");
  EXPECT_EQ(reason_of("inputs\n  %0: f32[4, 6] primal argument 0\n  %2: f32[4, 6] primal argument "
                      "1\nnodes\n  %1: f32[4, 6] = aten::_softmax.default(%0, 1, false)\n"
                      "  %3: f32[4, 6] = aten::add.Tensor(%1, %2, scalar(1))\n"
                      "  %4: f32[] = aten::sum.default(%3, none)\noutputs\n  %4 result\n"),
            "2: aten::sum.default reduces other dimensions than its group");
  for (const char* classes :
       {"aten::neg.default(%2)", "aten::arange.default(scalar(4), none, none, none, none)"}) {
    EXPECT_EQ(reason_of(fmt::format(
                  "inputs\n  %0: f32[] primal argument 0\n  %1: f32[4, 6] primal argument 1\n"
                  "  %2: i64[4] primal argument 2\n  %3: f32[] primal argument 3\nnodes\n"
                  "  %4: i64[4] = {}\n  %5: f32[4, 6] = "
                  "aten::nll_loss_backward.default(%0, %1, %4, none, 1, -100, %3)\n"
                  "outputs\n  %5 result\n",
                  classes)),
              "1: aten::nll_loss_backward.default reads classes that its group makes");
  }
  EXPECT_EQ(reason_of("inputs\n  %0: f32[5, 7] primal argument 0\n  %1: f32[5, 7] primal argument "
                      "1\nnodes\n  %2: f32[5] = aten::sum.dim_IntList(%0, [1], false, none)\n"
                      "  %3: f32[5, 1] = aten::sum.dim_IntList(%1, [1], true, none)\n"
                      "  %4: f32[5, 5] = aten::add.Tensor(%2, %3, scalar(1))\n"
                      "outputs\n  %4 result\n"),
            "2: aten::add.Tensor has other elements than the rest of its group");
  EXPECT_EQ(
      reason_of(one("i64[5, 7]", "  %1: i64[5] = aten::sum.dim_IntList(%0, [1], false, none)\n")),
      "0: sum has no recipe for i64");
  EXPECT_EQ(reason_of("inputs\n  %0: f32[4, 6] primal argument 0\n  %2: bf16[6] primal argument 1\n"
                      "nodes\n  %1: f32[4, 6], %3: f32[4, 1], %4: f32[4, 1] = "
                      "aten::native_layer_norm.default(%0, [6], %2, none, 1e-05)\n"
                      "outputs\n  %1 result\n"),
            "0: aten::native_layer_norm.default mixes element types: f32 and bf16");
}

}  // namespace group_rows_test
}  // namespace antegrad::testing
