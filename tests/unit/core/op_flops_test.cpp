#include "cost/op_flops.h"

#include <set>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include <antegrad/error.h>

#include "graph/op_traits_table.h"
#include "one_node.h"

namespace antegrad::testing {
namespace op_flops_test {

int64_t flops(const Types& inputs, const Types& outputs, const std::string& call) {
  const Graph graph = graph_of_call(inputs, outputs, call);
  return op_flops(graph, graph.nodes[0]);
}

TEST(OpFlops, AMatrixProductIsAMultiplicationAndAnAdditionForEachTerm) {
  // 2 x 5 elements, each the sum of three products.
  EXPECT_EQ(flops({"f32[2, 3]", "f32[3, 5]"}, {"f32[2, 5]"}, "aten::mm.default(%0, %1)"),
            2 * 5 * 3 * 2);
  EXPECT_EQ(flops({"f32[5]", "f32[2, 3]", "f32[3, 5]"}, {"f32[2, 5]"},
                  "aten::addmm.default(%0, %1, %2, beta=scalar(1), alpha=scalar(1))"),
            60);
  EXPECT_EQ(flops({"i8[2, 3]", "i8[3, 5]"}, {"i32[2, 5]"}, "aten::_int_mm.default(%0, %1)"), 60);
  EXPECT_EQ(
      flops({"f8e4m3fn[2, 3]", "f8e4m3fn[3, 5]", "f32[]", "f32[]"}, {"bf16[2, 5]"},
            "aten::_scaled_mm.default(%0, %1, %2, %3, bias=none, none, out_dtype=bf16, false)"),
      60);
}

TEST(OpFlops, BatchesOfMatrixProducts) {
  EXPECT_EQ(flops({"f32[7, 2, 3]", "f32[7, 3, 5]"}, {"f32[7, 2, 5]"}, "aten::bmm.default(%0, %1)"),
            7 * 60);
  EXPECT_EQ(flops({"f32[2, 5]", "f32[7, 2, 3]", "f32[7, 3, 5]"}, {"f32[7, 2, 5]"},
                  "aten::baddbmm.default(%0, %1, %2, beta=scalar(1), alpha=scalar(1))"),
            7 * 60);
  // The same products, but summed to a single matrix.
  EXPECT_EQ(flops({"f32[2, 5]", "f32[7, 2, 3]", "f32[7, 3, 5]"}, {"f32[2, 5]"},
                  "aten::addbmm.default(%0, %1, %2, beta=scalar(1), alpha=scalar(1))"),
            7 * 60);
  EXPECT_EQ(
      flops({"f32[4, 7, 2, 3]", "f32[3, 5]"}, {"f32[4, 7, 2, 5]"}, "aten::matmul.default(%0, %1)"),
      4 * 7 * 60);
}

TEST(OpFlops, ProductsWithVectors) {
  EXPECT_EQ(flops({"f32[2, 3]", "f32[3]"}, {"f32[2]"}, "aten::mv.default(%0, %1)"), 12);
  EXPECT_EQ(flops({"f32[2]", "f32[2, 3]", "f32[3]"}, {"f32[2]"},
                  "aten::addmv.default(%0, %1, %2, beta=scalar(1), alpha=scalar(1))"),
            12);
  EXPECT_EQ(flops({"f32[3]", "f32[3]"}, {"f32[]"}, "aten::dot.default(%0, %1)"), 6);
  EXPECT_EQ(flops({"f32[2, 3]", "f32[2]", "f32[3]"}, {"f32[2, 3]"},
                  "aten::addr.default(%0, %1, %2, beta=scalar(1), alpha=scalar(1))"),
            12);
}

TEST(OpFlops, LinearAndItsBackward) {
  EXPECT_EQ(flops({"f32[4, 7, 3]", "f32[5, 3]", "f32[5]"}, {"f32[4, 7, 5]"},
                  "aten::linear.default(%0, %1, %2)"),
            4 * 7 * 5 * 3 * 2);
  const Types inputs = {"f32[4, 7, 3]", "f32[4, 7, 5]", "f32[5, 3]"};
  EXPECT_EQ(flops(inputs, {"f32[4, 7, 3]", "f32[5, 3]", "f32[5]"},
                  "aten::linear_backward.default(%0, %1, %2, [true, true, true])"),
            2 * 840);
  EXPECT_EQ(flops(inputs, {"none", "f32[5, 3]", "f32[5]"},
                  "aten::linear_backward.default(%0, %1, %2, [false, true, true])"),
            840);
}

TEST(OpFlops, GroupsOfMatrixProducts) {
  const auto grouped = [](const Types& inputs, const std::string& output) {
    return flops(inputs, {output}, "aten::_grouped_mm.default(%0, %1, offs=%2, none, none)");
  };
  // Ten rows, divided among four matrices.
  EXPECT_EQ(grouped({"bf16[10, 3]", "bf16[4, 3, 5]", "i32[4]"}, "bf16[10, 5]"), 10 * 3 * 5 * 2);
  // Ten columns, divided among four stacks of rows.
  EXPECT_EQ(grouped({"bf16[4, 2, 3]", "bf16[3, 10]", "i32[4]"}, "bf16[2, 10]"), 2 * 3 * 10 * 2);
  // The ten terms of the sums are divided, which gives four sets of smaller sums.
  EXPECT_EQ(grouped({"bf16[2, 10]", "bf16[10, 5]", "i32[4]"}, "bf16[4, 2, 5]"), 2 * 10 * 5 * 2);
}

constexpr const char* kConvolution =
    "(%0, %1, none, stride=[1, 1], padding=[0, 0], dilation=[1, 1], transposed=false, "
    "output_padding=[0, 0], groups=1)";

TEST(OpFlops, AConvolutionAppliesItsWeightAtEachPlaceOfTheOutput) {
  // 2 images, 6 x 6 positions, and at each 4 sums over 3 channels of 3 x 3.
  const int64_t expected = 2 * 36 * 4 * (3 * 9) * 2;
  for (const std::string op :
       {"aten::convolution.default", "aten::convolution_overrideable.default"}) {
    EXPECT_EQ(flops({"f32[2, 3, 8, 8]", "f32[4, 3, 3, 3]"}, {"f32[2, 4, 6, 6]"}, op + kConvolution),
              expected);
  }
  EXPECT_EQ(flops({"f32[2, 3, 8, 8]", "f32[4, 3, 3, 3]"}, {"f32[2, 4, 6, 6]"},
                  "aten::cudnn_convolution.default(%0, %1, [0, 0], [1, 1], [1, 1], 1, false, "
                  "false, true)"),
            expected);
}

TEST(OpFlops, GroupsOfChannelsMeetTheirOwnWeights) {
  // 4 output channels in two groups, each a sum over 3 of the 6 input channels.
  EXPECT_EQ(flops({"f32[2, 6, 8]", "f32[4, 3, 3]"}, {"f32[2, 4, 6]"},
                  "aten::convolution.default(%0, %1, none, [1], [0], [1], false, [0], 2)"),
            2 * 6 * 4 * (3 * 3) * 2);
}

TEST(OpFlops, ATransposedConvolutionAppliesItAtEachPlaceOfTheInput) {
  EXPECT_EQ(
      flops({"f32[2, 3, 4, 4]", "f32[3, 5, 2, 2]"}, {"f32[2, 5, 8, 8]"},
            "aten::convolution.default(%0, %1, none, [2, 2], [0, 0], [1, 1], true, [0, 0], 1)"),
      2 * 16 * 3 * (5 * 4) * 2);
}

TEST(OpFlops, TheBackwardOfAConvolutionTakesAsMuchForEachGradientThatIsAskedFor) {
  const int64_t one = 2 * 36 * 4 * (3 * 9) * 2;
  const auto backward = [](const Types& outputs, const std::string& mask) {
    return flops(
        {"f32[2, 4, 6, 6]", "f32[2, 3, 8, 8]", "f32[4, 3, 3, 3]"}, outputs,
        "aten::convolution_backward.default(%0, %1, %2, [4], [1, 1], [0, 0], [1, 1], false, "
        "[0, 0], 1, [" +
            mask + "])");
  };
  const std::string x = "f32[2, 3, 8, 8]";
  const std::string w = "f32[4, 3, 3, 3]";
  EXPECT_EQ(backward({x, w, "f32[4]"}, "true, true, true"), 2 * one);
  EXPECT_EQ(backward({"none", w, "f32[4]"}, "false, true, true"), one);
  EXPECT_EQ(backward({x, "none", "none"}, "true, false, false"), one);
  EXPECT_EQ(backward({"none", "none", "f32[4]"}, "false, false, true"), 0);
  EXPECT_EQ(
      flops({"f32[2, 5, 8, 8]", "f32[2, 3, 4, 4]", "f32[3, 5, 2, 2]"},
            {"f32[2, 3, 4, 4]", "f32[3, 5, 2, 2]", "none"},
            "aten::convolution_backward.default(%0, %1, %2, none, [2, 2], [0, 0], [1, 1], true, "
            "[0, 0], 1, [true, true, false])"),
      2 * (2 * 16 * 3 * (5 * 4) * 2));
}

// Attention of 2 sequences, 3 heads, 4 queries, 6 keys; queries have size 5, values 7.
constexpr int64_t kScores = 2 * 3 * (4 * 6) * 5 * 2;
constexpr int64_t kValues = 2 * 3 * (4 * 6) * 7 * 2;

TEST(OpFlops, AttentionIsTwoProductsAndItsBackwardFive) {
  const Types qkv = {"f32[2, 3, 4, 5]", "f32[2, 3, 6, 5]", "f32[2, 3, 6, 7]"};
  for (const std::string call :
       {"_scaled_dot_product_flash_attention_for_cpu.default(%0, %1, %2, 0.0, false, none, none)",
        "_scaled_dot_product_flash_attention.default(%0, %1, %2, 0.0, false, false, none)",
        "_scaled_dot_product_efficient_attention.default(%0, %1, %2, none, true, 0.0, false, none)",
        "_scaled_dot_product_cudnn_attention.default(%0, %1, %2, none, true, 0.0, false, false, "
        "none)"}) {
    EXPECT_EQ(flops(qkv, {"f32[2, 3, 4, 7]", "f32[2, 3, 4]"}, "aten::" + call), kScores + kValues)
        << call;
  }
  const Types gradients = {qkv[0], qkv[1], qkv[2]};
  const Types inputs = {"f32[2, 3, 4, 7]", qkv[0],        qkv[1], qkv[2],
                        "f32[2, 3, 4, 7]", "f32[2, 3, 4]"};
  // Scores and gradients of queries and keys; gradients of scores and values.
  EXPECT_EQ(
      flops(inputs, gradients,
            "aten::_scaled_dot_product_flash_attention_for_cpu_backward.default(%0, %1, %2, %3, "
            "%4, %5, 0.0, false, none, none)"),
      3 * kScores + 2 * kValues);
}

TEST(OpFlops, SharedHeadsOfKeysMeetEachHeadOfQueries) {
  EXPECT_EQ(
      flops({"f32[2, 3, 4, 5]", "f32[2, 1, 6, 5]", "f32[2, 1, 6, 7]"},
            {"f32[2, 3, 4, 7]", "f32[2, 3, 4]"},
            "aten::_scaled_dot_product_flash_attention.default(%0, %1, %2, 0.0, false, false, "
            "none)"),
      kScores + kValues);
}

TEST(OpFlops, KernelsOfAttentionTakeTheLengthFirst) {
  const Types qkv = {"f16[2, 4, 3, 5]", "f16[2, 6, 3, 5]", "f16[2, 6, 3, 7]"};
  EXPECT_EQ(
      flops(qkv, {"f16[2, 4, 3, 7]", "f32[2, 3, 4]"},
            "aten::_flash_attention_forward.default(%0, %1, %2, none, none, 4, 6, 0.0, false, "
            "false)"),
      kScores + kValues);
  EXPECT_EQ(flops(qkv, {"f16[2, 4, 3, 7]", "f32[2, 3, 4]"},
                  "aten::_efficient_attention_forward.default(%0, %1, %2, none, none, none, none, "
                  "none, 0.0, 0)"),
            kScores + kValues);
  EXPECT_EQ(
      flops({"f16[2, 4, 3, 7]", qkv[0], qkv[1], qkv[2], "f16[2, 4, 3, 7]", "f32[2, 3, 4]"},
            {qkv[0], qkv[1], qkv[2]},
            "aten::_flash_attention_backward.default(%0, %1, %2, %3, %4, %5, none, none, 4, 6, "
            "0.0, false)"),
      3 * kScores + 2 * kValues);
}

TEST(OpFlops, SequencesOfDifferentLengthsCountTheLongestRowOfKeys) {
  // Ten queries in all, each with at most 6 of the 9 keys.
  EXPECT_EQ(flops({"f16[10, 3, 5]", "f16[9, 3, 5]", "f16[9, 3, 7]", "i32[3]", "i32[3]"},
                  {"f16[10, 3, 7]", "f32[3, 10]"},
                  "aten::_flash_attention_forward.default(%0, %1, %2, %3, %4, 8, 6, 0.0, false, "
                  "false)"),
            3 * 10 * 6 * (5 + 7) * 2);
}

TEST(OpFlops, RecurrentLayersMeetEachMatrixAtEachStep) {
  // 9 steps of 2 rows with 3 features; a cell of 4 has 4 gates.
  const int64_t forward = 9 * 2 * (16 * 3 + 16 * 4) * 2;
  EXPECT_EQ(flops({"f32[9, 2, 3]", "f32[16, 3]", "f32[16, 4]", "f32[16]", "f32[16]", "f32[2, 4]",
                   "f32[2, 4]"},
                  {"f32[9, 2, 4]", "f32[2, 4]", "f32[2, 4]", "u8[64]"},
                  "aten::mkldnn_rnn_layer.default(%0, %1, %2, %3, %4, %5, %6, false, [], 2, 4, 1, "
                  "true, false, false, true)"),
            forward);
  const Types inputs = {"f32[9, 2, 3]", "f32[16, 3]", "f32[16, 4]",
                        "f32[16]",      "f32[16]",    "f32[1, 2, 4]"};
  EXPECT_EQ(flops(inputs, {"f32[9, 2, 4]"},
                  "aten::_cudnn_rnn.default(%0, {%1, %2, %3, %4}, 4, none, %5, none, 2, 4, 0, 1, "
                  "false, 0.0, true, false, [], none)"),
            forward);
  const auto backward = [&](const std::string& weights) {
    return flops(
        inputs, {"f32[9, 2, 3]"},
        "aten::_cudnn_rnn_backward.default(%0, {%1, %2, %3, %4}, 4, %4, %5, none, %0, none, "
        "none, none, 2, 4, 0, 1, false, 0.0, true, false, [], none, %0, [true, true, true, " +
            weights + "])");
  };
  EXPECT_EQ(backward("true"), 2 * forward);
  EXPECT_EQ(backward("false"), forward);
}

TEST(OpFlops, DistancesAndBilinearForms) {
  EXPECT_EQ(flops({"f32[2, 4, 3]", "f32[2, 5, 3]"}, {"f32[2, 4, 5]"},
                  "aten::_cdist_forward.default(%0, %1, 2.0, none)"),
            2 * 4 * 5 * 3 * 3);
  // y[b, o] = sum over i, j of x[b, i] w[o, i, j] z[b, j], as nn::functional::bilinear calls it.
  EXPECT_EQ(flops({"f32[2, 3]", "f32[5, 3, 4]", "f32[2, 4]"}, {"f32[2, 5]"},
                  "aten::_trilinear.default(%0, %1, %2, [1, 3], [0], [1, 2], [2, 3], 1)"),
            (2 * 5 * 3 * 4) * 3);
}

TEST(OpFlops, OthersCountNothing) {
  EXPECT_EQ(
      flops({"f32[8, 8]", "f32[8, 8]"}, {"f32[8, 8]"}, "aten::add.Tensor(%0, %1, alpha=scalar(1))"),
      0);
  EXPECT_EQ(flops({"f32[8, 8]"}, {"f32[8, 8]"}, "mine::unheard_of.default(%0)"), 0);
}

TEST(OpFlops, SizesMayBeSymbols) {
  const Graph graph = graph_of_call({"f32[s0, 3]", "f32[3, (2*s0)]"}, {"f32[s0, (2*s0)]"},
                                    "aten::mm.default(%0, %1)", "symbols s0");
  EXPECT_EQ(op_flops(graph, graph.nodes[0], {5}), 5 * 10 * 3 * 2);
}

TEST(OpFlops, CountsThatDoNotFitAreTheLargestNumber) {
  EXPECT_EQ(flops({"f32[1000000000, 1000000000]", "f32[1000000000, 1000000000]"},
                  {"f32[1000000000, 1000000000]"}, "aten::mm.default(%0, %1)"),
            INT64_MAX);
}

TEST(OpFlops, TooFewDimensionsAreAGraphError) {
  expect_error<GraphError>(
      [] {
        flops({"f32[]", "f32[3]"}, {"f32[]"}, "aten::mm.default(%0, %1)");
      },
      "at least 1 dimensions of argument 0");
  expect_error<GraphError>([] { flops({"f32[3]"}, {"f32[]"}, "aten::addmm.default(%0, none)"); },
                           "a tensor as argument 1");
}

TEST(OpFlops, EveryComputeIntensiveOperatorHasAFormula) {
  // Its overloads have their weight at different positions.
  const std::set<std::string> without = {"mkldnn::_convolution_pointwise"};
  for (const OpRow& row : other_rows()) {
    if (!row.traits.compute_intensive) continue;
    const std::string name(row.name);
    const std::string full = name.find("::") == std::string::npos ? "aten::" + name : name;
    EXPECT_EQ(has_flops(full), !without.contains(full)) << full;
  }
}

}  // namespace op_flops_test
}  // namespace antegrad::testing
