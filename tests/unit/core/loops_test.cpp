#include "fusion/loops.h"

#include <string>

#include <gtest/gtest.h>

#include "one_node.h"

namespace antegrad::testing {
namespace loops_test {

/// "rows x depth", "rows x depth columns", "rows", or "none".
std::string loops(const Types& inputs, const Types& outputs, const std::string& call) {
  const Graph graph = graph_of_call(inputs, outputs, call);
  const auto found = loops_of(graph, graph.nodes[0]);
  if (!found) return "none";
  std::string text = std::to_string(found->rows);
  if (found->reduces) text += " x " + std::to_string(found->depth);
  return text + (found->columns ? " columns" : "");
}

TEST(Loops, PointwiseNodesRunOverWhatTheyMake) {
  EXPECT_EQ(loops({"f32[4, 8]", "f32[8]"}, {"f32[4, 8]"}, "aten::mul.Tensor(%0, %1)"), "32");
  EXPECT_EQ(loops({}, {"f32[4, 8]"}, "aten::zeros.default([4, 8], f32, none, cpu, none)"), "32");
  EXPECT_EQ(loops({"f32[9]", "i64[4, 8]"}, {"f32[4, 8]"}, "aten::gather.default(%0, 0, %1, false)"),
            "32");
}

TEST(Loops, ReductionsRunOverWhatTheyRead) {
  const auto sum = [](const std::string& output, const std::string& dims) {
    return loops({"f32[2, 4, 8]"}, {output},
                 "aten::sum.dim_IntList(%0, " + dims + ", false, none)");
  };
  EXPECT_EQ(sum("f32[2, 4]", "[2]"), "8 x 8");
  EXPECT_EQ(sum("f32[2, 4]", "[-1]"), "8 x 8");
  EXPECT_EQ(sum("f32[2]", "[1, 2]"), "2 x 32");
  EXPECT_EQ(sum("f32[8]", "[0, 1]"), "8 x 8 columns");
  EXPECT_EQ(sum("f32[2, 8]", "[1]"), "none");
  EXPECT_EQ(sum("f32[]", "[0, 1, 2]"), "1 x 64");
  EXPECT_EQ(loops({"f32[2, 4]"}, {"f32[]"}, "aten::mean.default(%0, none)"), "1 x 8");
  EXPECT_EQ(loops({"f32[2, 4]"}, {"f32[2]", "i64[2]"}, "aten::max.dim(%0, 1, false)"), "2 x 4");
  // Reductions over one element each.
  EXPECT_EQ(loops({"f32[2, 1, 8]"}, {"f32[2, 1]"}, "aten::amax.default(%0, [2], false)"), "2 x 8");
  EXPECT_EQ(loops({"f32[1, 8]"}, {"f32[8]"}, "aten::amax.default(%0, [0], false)"), "8 x 1");
}

TEST(Loops, OthersHaveNone) {
  EXPECT_EQ(loops({"f32[4, 4]", "f32[4, 4]"}, {"f32[4, 4]"}, "aten::mm.default(%0, %1)"), "none");
  EXPECT_EQ(loops({"f32[4, 8]"}, {"f32[8, 4]{1, 8} &0"}, "aten::t.default(%0)"), "none");
  EXPECT_EQ(loops({"f32[4]"}, {"f32[4] &0"}, "aten::neg_.default(%0)"), "none");
  EXPECT_EQ(loops({"f32[4]"}, {"f32[4]"}, "mine::unheard_of.default(%0)"), "none");
  EXPECT_EQ(loops({"f32[0]"}, {"f32[0]"}, "aten::neg.default(%0)"), "none");
  EXPECT_EQ(loops({}, {"f32[4]"}, "aten::empty.memory_format([4], f32, none, cpu, none, none)"),
            "none");
  EXPECT_EQ(loops({}, {"i64[4]"}, "aten::randperm.default(4, i64, none, cpu, none)"), "none");
  // A graph that does not say which dimensions are reduced.
  EXPECT_EQ(loops({"f32[8, 8]"}, {"f32[8]"}, "aten::sum.dim_IntList(%0)"), "none");
}

/// "rows x depth, number of results that share them", or "none".
std::string row_loops(const Types& inputs, const Types& outputs, const std::string& call) {
  const Graph graph = graph_of_call(inputs, outputs, call);
  const auto found = row_loops_of(graph, graph.nodes[0]);
  if (!found) return "none";
  EXPECT_TRUE(found->loops.reduces && !found->loops.columns);
  return std::to_string(found->loops.rows) + " x " + std::to_string(found->loops.depth) + ", " +
         std::to_string(found->shared);
}

TEST(Loops, OperatorsOverRowsReduceTheLastDimensions) {
  EXPECT_EQ(row_loops({"f32[2, 4, 8]"}, {"f32[2, 4, 8]"}, "aten::_softmax.default(%0, -1, false)"),
            "8 x 8, 1");
  EXPECT_EQ(row_loops({"f32[2, 4, 8]"}, {"f32[2, 4, 8]"}, "aten::_softmax.default(%0, 1, false)"),
            "none");
  EXPECT_EQ(row_loops({"f32[2, 4, 8]"}, {"f32[2, 4, 8]", "f32[2, 1, 1]", "f32[2, 1, 1]"},
                      "aten::native_layer_norm.default(%0, [4, 8], none, none, 1e-05)"),
            "2 x 32, 3");
  EXPECT_EQ(row_loops({"f32[]", "f32[4, 8]", "i64[4]", "f32[]"}, {"f32[4, 8]"},
                      "aten::nll_loss_backward.default(%0, %1, %2, none, 1, -100, %3)"),
            "4 x 8, 1");
  EXPECT_EQ(row_loops({"f32[4, 8]"}, {"f32[4, 8]"}, "aten::relu.default(%0)"), "none");
  // A graph that does not say which dimensions are reduced.
  EXPECT_EQ(row_loops({"f32[4, 8]"}, {"f32[4, 8]"}, "aten::_softmax.default(%0)"), "none");
}

TEST(Loops, TwoShareThoseOfTheReduction) {
  const Loops rows{4, 8, true, false};
  const Loops columns{4, 8, true, true};
  EXPECT_TRUE(common_loops(Loops{32}, rows, false)->reduces);
  EXPECT_TRUE(common_loops(rows, Loops{4}, false)->reduces);
  EXPECT_TRUE(common_loops(rows, rows, false));
  EXPECT_FALSE(common_loops(rows, columns, false));
  EXPECT_FALSE(common_loops(rows, Loops{8, 4, true, false}, false));
  EXPECT_FALSE(common_loops(rows, Loops{8}, false));
  EXPECT_FALSE(common_loops(Loops{32}, rows, /*apart=*/true));
  EXPECT_TRUE(common_loops(Loops{32}, Loops{32}, /*apart=*/true));
  EXPECT_FALSE(common_loops(Loops{32}, Loops{16}, false));
}

TEST(Loops, FewerElementsAreBroadcastIntoMore) {
  EXPECT_TRUE(broadcasts_into(Loops{8}, Loops{32}));
  EXPECT_TRUE(broadcasts_into(Loops{8}, Loops{4, 8, true, false}));
  EXPECT_FALSE(broadcasts_into(Loops{32}, Loops{8}));
  EXPECT_FALSE(broadcasts_into(Loops{5}, Loops{32}));
  EXPECT_FALSE(broadcasts_into(Loops{4, 8, true, false}, Loops{64}));
}

}  // namespace loops_test
}  // namespace antegrad::testing
