// Products of matrices by another library, as graphs.

#include "lower/products.h"

#include <string>

#include <gtest/gtest.h>

#include "graph/text.h"
#include "graphs.h"

namespace antegrad::testing {
namespace products_test {

// The form of the only node of a graph with these inputs.
std::string form(const std::string& inputs, const std::string& node) {
  const Graph graph = graph_of("inputs\n" + inputs + "nodes\n  " + node + "\noutputs\n");
  const auto other = lower::onednn_product(graph, graph.nodes[0]);
  if (!other) return "";
  std::string text;
  for (const Node& made : other->nodes) text += node_text(*other, made) + "\n";
  return text;
}

const std::string kTwo = "  %0: f32[128, 100] primal\n  %1: f32[100, 200] primal\n";
const std::string kThree =
    "  %0: f32[200] primal\n  %1: f32[128, 100] primal\n  %2: f32[100, 200] primal\n";

TEST(Products, OfTwoMatrices) {
  EXPECT_EQ(form(kTwo, "%2: f32[128, 200] = aten::mm.default(%0, %1)"),
            "%2: f32[128, 200] = antegrad::onednn_product.default(%0, %1, none)\n");
}

TEST(Products, TheSecondMatrixMayBeTransposed) {
  EXPECT_EQ(form("  %0: f32[128, 100] primal\n  %1: f32[100, 200]{1, 100} primal\n",
                 "%2: f32[128, 200] = aten::mm.default(%0, %1)"),
            "%2: f32[128, 200] = antegrad::onednn_product.default(%0, %1, none)\n");
}

TEST(Products, ATransposedFirstMatrixIsCopied) {
  EXPECT_EQ(form("  %0: f32[128, 100]{1, 128} primal\n  %1: f32[100, 200] primal\n",
                 "%2: f32[128, 200] = aten::mm.default(%0, %1)"),
            "%3: f32[128, 100] = antegrad::restride.default(%0, [100, 1])\n"
            "%2: f32[128, 200] = antegrad::onednn_product.default(%3, %1, none)\n");
}

TEST(Products, ABiasIsAddedToEachRow) {
  EXPECT_EQ(
      form(kThree, "%3: f32[128, 200] = aten::addmm.default(%0, %1, %2, scalar(1), scalar(1))"),
      "%3: f32[128, 200] = antegrad::onednn_product.default(%1, %2, %0)\n");
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

}  // namespace products_test
}  // namespace antegrad::testing
