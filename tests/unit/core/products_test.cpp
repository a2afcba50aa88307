// Products of matrices by another library, as graphs.

#include "lower/products.h"

#include <optional>
#include <regex>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "graph/text.h"
#include "graphs.h"

namespace antegrad::testing {
namespace products_test {

// The way that is preferred for the last node of a graph.
std::optional<lower::OtherCall> other_call(const Graph& graph) {
  const auto last = static_cast<int32_t>(graph.nodes.size() - 1);
  auto calls = lower::other_calls(graph, lower::GraphUses(graph), last);
  return calls.empty() ? std::nullopt : std::optional(std::move(calls.front()));
}

// The form of the last node of a graph with these inputs.
std::string form(const std::string& inputs, const std::string& nodes,
                 const std::string& outputs = "") {
  const Graph graph = graph_of("inputs\n" + inputs + "nodes\n  " + nodes + "\noutputs\n" + outputs);
  const auto other = other_call(graph);
  if (!other) return "";
  std::string text;
  for (const Node& made : other->graph.nodes) text += node_text(other->graph, made) + "\n";
  // Names of arguments are known where a test has registered the operator.
  return std::regex_replace(text, std::regex("[a-z_]+="), "");
}

const std::string kTwo = "  %0: f32[128, 100] primal\n  %1: f32[100, 200] primal\n";
const std::string kThree =
    "  %0: f32[200] primal\n  %1: f32[128, 100] primal\n  %2: f32[100, 200] primal\n";

TEST(Products, OfTwoMatrices) {
  EXPECT_EQ(form(kTwo, "%2: f32[128, 200] = aten::mm.default(%0, %1)"),
            "%2: f32[128, 200] = antegrad::onednn_product.default(%0, %1, none, [128, 200])\n");
}

TEST(Products, TheSecondMatrixMayBeTransposed) {
  EXPECT_EQ(form("  %0: f32[128, 100] primal\n  %1: f32[100, 200]{1, 100} primal\n",
                 "%2: f32[128, 200] = aten::mm.default(%0, %1)"),
            "%2: f32[128, 200] = antegrad::onednn_product.default(%0, %1, none, [128, 200])\n");
}

TEST(Products, ATransposedFirstMatrixIsCopied) {
  EXPECT_EQ(form("  %0: f32[128, 100]{1, 128} primal\n  %1: f32[100, 200] primal\n",
                 "%2: f32[128, 200] = aten::mm.default(%0, %1)"),
            "%3: f32[128, 100] = antegrad::restride.default(%0, [100, 1])\n"
            "%2: f32[128, 200] = antegrad::onednn_product.default(%3, %1, none, [128, 200])\n");
}

TEST(Products, ABiasIsAddedToEachRow) {
  EXPECT_EQ(
      form(kThree, "%3: f32[128, 200] = aten::addmm.default(%0, %1, %2, scalar(1), scalar(1))"),
      "%3: f32[128, 200] = antegrad::onednn_product.default(%0, %1, %2, [128, 200])\n");
}

// As libtorch's linear layers compute it where there are more than two dimensions.
std::string layer(const std::string& type, const std::string& device = "") {
  return "%3: " + type + "[128, 200]" + device + " = aten::mm.default(%1, %2)\n" +  //
         "  %4: " + type + "[2, 64, 200]" + device +
         " = aten::_unsafe_view.default(%3, [2, 64, 200])\n" +  //
         "  %5: " + type + "[2, 64, 200]" + device + " = aten::add.Tensor(%4, %0, scalar(1))";
}

TEST(Products, ABiasThatAnotherNodeAddsIsPartOfTheCall) {
  EXPECT_EQ(form(kThree, layer("f32")),
            "%3: f32[2, 64, 200] = antegrad::onednn_product.default(%0, %1, %2, [2, 64, 200])\n");
  const std::string there = " cuda:0";
  const std::string inputs =
      "  %0: bf16[200] cuda:0 primal\n  %1: bf16[128, 100] cuda:0 primal\n"
      "  %2: bf16[100, 200] cuda:0 primal\n";
  EXPECT_EQ(form(inputs, layer("bf16", there)),
            "%3: bf16[2, 64, 200] cuda:0 = "
            "antegrad::biased_product.default(%0, %1, %2, [2, 64, 200])\n");
  // libtorch's call for it.
  EXPECT_EQ(form(inputs,
                 "%3: bf16[128, 200] cuda:0 = "
                 "aten::addmm.default(%0, %1, %2, scalar(1), scalar(1))"),
            "");
}

TEST(Products, ABiasIsNotWhereOthersReadTheProduct) {
  EXPECT_EQ(form(kThree, layer("f32"), "  %3 result\n"), "");
  EXPECT_EQ(form(kThree, layer("f32"), "  %4 result\n"), "");
  const std::string of_rows =
      "%3: f32[128, 200] = aten::mm.default(%1, %2)\n"
      "  %4: f32[128, 200] = aten::add.Tensor(%3, %0, scalar(1))";
  EXPECT_NE(form(kThree, of_rows), "");
  const std::string column = "  %0: f32[128, 1] primal\n" + kThree.substr(kThree.find('\n') + 1);
  EXPECT_EQ(form(column, of_rows), "");
  EXPECT_EQ(form(kThree, std::regex_replace(of_rows, std::regex("scalar\\(1"), "scalar(2")), "");
}

TEST(Products, OthersStay) {
  const std::string mm = "%2: f32[128, 200] = aten::mm.default(%0, %1)";
  for (const char* factors : {"scalar(2), scalar(1)", "scalar(1), scalar(0.5)"}) {
    EXPECT_EQ(form(kThree, "%3: f32[128, 200] = aten::addmm.default(%0, %1, %2, " +
                               std::string(factors) + ")"),
              "");
  }
  EXPECT_EQ(form("  %0: f32[128, 200] primal\n  %1: f32[128, 100] primal\n"
                 "  %2: f32[100, 200] primal\n",
                 "%3: f32[128, 200] = aten::addmm.default(%0, %1, %2, scalar(1), scalar(1))"),
            "");
  EXPECT_EQ(form("  %0: f64[128, 100] primal\n  %1: f64[100, 200] primal\n",
                 "%2: f64[128, 200] = aten::mm.default(%0, %1)"),
            "");
  for (const char* strides : {"{300, 1}", "{0, 1}", "{2, 256}"}) {
    EXPECT_EQ(
        form("  %0: f32[128, 100]" + std::string(strides) + " primal\n  %1: f32[100, 200] primal\n",
             mm),
        "");
  }
  for (const char* rows : {"8", "0"}) {  // small, empty
    const std::string sizes = std::string(rows) + ", 200]";
    EXPECT_EQ(
        form("  %0: f32[" + std::string(rows) + ", 100] primal\n" + "  %1: f32[100, 200] primal\n",
             "%2: f32[" + sizes + " = aten::mm.default(%0, %1)"),
        "");
  }
}

const std::string kFlash = "aten::_scaled_dot_product_flash_attention_for_cpu";
const std::string kHeads =
    "  %0: f32[2, 3, 20, 32] primal\n  %1: f32[2, 3, 25, 32] primal\n"
    "  %2: f32[2, 3, 25, 32] primal\n";
const std::string kOut = "%3: f32[2, 3, 20, 32]{1920, 32, 96, 1}, %4: f32[2, 3, 20]{60, 1, 3} = ";

TEST(Products, AttentionIsOurOwn) {
  EXPECT_EQ(form(kHeads, kOut + kFlash + ".default(%0, %1, %2, 0.0, true, none, none)"),
            kOut + "antegrad::attention.default(%0, %1, %2, true, 0.17677669529663687)\n");
  EXPECT_EQ(form(kHeads, kOut + kFlash + ".default(%0, %1, %2, 0.0, false, none, 0.5)"),
            kOut + "antegrad::attention.default(%0, %1, %2, false, 0.5)\n");
}

TEST(Products, AndItsGradients) {
  const std::string inputs =
      kHeads +
      "  %3: f32[2, 3, 20, 32]{1920, 32, 96, 1} primal\n"
      "  %4: f32[2, 3, 20]{60, 1, 3} primal\n  %5: f32[2, 3, 20, 32] primal\n";
  const std::string results =
      "%6: f32[2, 3, 20, 32]{1920, 32, 96, 1}, %7: f32[2, 3, 25, 32]{2400, 32, 96, 1}, "
      "%8: f32[2, 3, 25, 32]{2400, 32, 96, 1} = ";
  EXPECT_EQ(form(inputs, results + kFlash +
                             "_backward.default(%5, %0, %1, %2, %3, %4, 0.0, false, none, 0.5)"),
            results + "antegrad::attention_backward.default(%0, %1, %2, %3, %4, %5, false, 0.5)\n");
}

// Two libraries are compared on gradients of what attention returns, not on those of any numbers.
TEST(Products, GradientsAreTriedOnResultsOfAttention) {
  const Graph graph = graph_of(
      "inputs\n" + kHeads +
      "  %3: f32[2, 3, 20, 32]{1920, 32, 96, 1} primal\n"
      "  %4: f32[2, 3, 20]{60, 1, 3} primal\n  %5: f32[2, 3, 20, 32] primal\nnodes\n  "
      "%6: f32[2, 3, 20, 32], %7: f32[2, 3, 25, 32], %8: f32[2, 3, 25, 32] = " +
      kFlash + "_backward.default(%5, %0, %1, %2, %3, %4, 0.0, true, none, 0.5)\noutputs\n");
  const auto other = other_call(graph);
  ASSERT_TRUE(other && other->likely_inputs);
  const Graph& likely = *other->likely_inputs;
  ASSERT_EQ(likely.nodes.size(), 1U);
  EXPECT_EQ(std::regex_replace(node_text(likely, likely.nodes[0]), std::regex("[a-z_]+="), ""),
            "%9: f32[2, 3, 20, 32]{1920, 32, 96, 1}, %10: f32[2, 3, 20]{60, 1, 3} = " + kFlash +
                ".default(%1, %2, %3, 0.0, true, none, 0.5)");
  std::vector<int32_t> given;
  for (const auto& output : likely.outputs) given.push_back(output.value.index());
  EXPECT_EQ(given, (std::vector<int32_t>{0, 1, 2, 3, 9, 10}));
}

TEST(Products, OtherAttentionStays) {
  const auto with = [](const std::string& arguments) {
    return form(kHeads, kOut + kFlash + ".default(" + arguments + ")");
  };
  EXPECT_EQ(with("%0, %1, %2, 0.5, true, none, none"), "");
  EXPECT_EQ(with("%0, %1, %2, 0.0, true, %2, none"), "");
  EXPECT_EQ(with("%0, %1, %2, 0.0, true, none, 0.0"), "");
  EXPECT_EQ(with("%0, %1, %2, 0.0, true, none, -0.5"), "");
  const std::string long_one =
      "  %0: f32[2, 3, 20, 32] primal\n  %1: f32[2, 3, 1025, 32] primal\n"
      "  %2: f32[2, 3, 1025, 32] primal\n";
  EXPECT_EQ(form(long_one, kOut + kFlash + ".default(%0, %1, %2, 0.0, true, none, none)"), "");
  const std::string odd =
      "  %0: f32[2, 3, 20, 24] primal\n  %1: f32[2, 3, 25, 24] primal\n"
      "  %2: f32[2, 3, 25, 24] primal\n";
  EXPECT_EQ(form(odd, "%3: f32[2, 3, 20, 24]{1440, 24, 72, 1}, %4: f32[2, 3, 20]{60, 1, 3} = " +
                          kFlash + ".default(%0, %1, %2, 0.0, true, none, none)"),
            "");
}

}  // namespace products_test
}  // namespace antegrad::testing
