#include "graph/analysis.h"

#include <gtest/gtest.h>

#include "graphs.h"

namespace antegrad::testing {
namespace analysis_test {

using Lists = std::vector<std::vector<int32_t>>;

Rows rows_of(const Lists& lists) {
  Rows rows;
  for (const auto& list : lists) {
    for (const int32_t item : list) rows.add(item);
    rows.end_row();
  }
  return rows;
}

TEST(Rows, AreListsOfNumbers) {
  EXPECT_EQ(Rows().rows(), 0);
  const Lists wanted = {{3, 1}, {}, {2}, {}};
  EXPECT_EQ(lists(rows_of(wanted)), wanted);
}

TEST(Rows, TransposedHoldRowsByItem) {
  const Rows rows = rows_of({{3, 1}, {}, {1}, {0, 3}});
  EXPECT_EQ(lists(rows.transposed(5)), (Lists{{3}, {0, 2}, {}, {0, 3}, {}}));
  EXPECT_EQ(lists(Rows().transposed(2)), (Lists{{}, {}}));
}

/// A view that is read after its base, an unused draw, and an undefined result.
const Graph& graph() {
  static const Graph graph = graph_of(R"(generators cpu
inputs
  %0: f32[2] primal
  %1: f32[2] primal
  %2: token generator 0
  %3: f32[2] tangent 0
nodes
  %4: f32[2] = aten::mul.Tensor(%0, %0)
  %5: f32[2] &4 = aten::view.default(%4, [2])
  %6: f32[2], %7: token = aten::bernoulli.p(%0, 0.5, none; %2)
  %8: f32[2] = aten::add.Tensor(%4, %0)
  %9: f32[2] = aten::neg.default(%5)
backward
  %10: f32[2] = aten::mul.Tensor(%3, %9)
outputs
  %8 result
  none result
  %7 generator 0
  %10 gradient 0
)");
  return graph;
}

TEST(Analysis, SaysWhoMakesAValueAndWhereItComesIn) {
  EXPECT_EQ(producers(graph()), (std::vector<int32_t>{-1, -1, -1, -1, 0, 1, 2, 2, 3, 4, 5}));
  EXPECT_EQ(input_positions(graph()),
            (std::vector<int32_t>{0, 1, 2, 3, -1, -1, -1, -1, -1, -1, -1}));
}

TEST(Analysis, OutputsAreFoundByKind) {
  const IdMap<ValueId, bool> results = output_values(graph(), handed_out);
  const IdMap<ValueId, bool> all = output_values(graph());
  for (const ValueId id : {ValueId(7), ValueId(10)}) {
    EXPECT_FALSE(results[id]);
    EXPECT_TRUE(all[id]);
  }
  EXPECT_TRUE(results[8]);
  EXPECT_EQ(std::count(all.begin(), all.end(), true), 3);
}

TEST(Analysis, AnOutputIsAUseBehindAllNodes) {
  const IdMap<ValueId, int32_t> by_nodes = last_uses(graph(), Uses::by_nodes);
  EXPECT_EQ(by_nodes, (std::vector<int32_t>{3, -1, 2, 5, 3, 4, -1, -1, -1, 5, -1}));
  IdMap<ValueId, int32_t> expected = by_nodes;
  for (const ValueId id : {ValueId(7), ValueId(8), ValueId(10)}) expected[id] = 6;
  EXPECT_EQ(last_uses(graph(), Uses::by_nodes_and_outputs), expected);
}

TEST(Analysis, AStorageIsUsedThroughItsViewsAndWhereItIsMade) {
  const IdMap<StorageId, int32_t> last = last_storage_uses(graph(), Uses::by_nodes);
  EXPECT_EQ(last[1], -1);  // an unused input
  EXPECT_EQ(last[4], 4);   // by the view %5
  EXPECT_EQ(last[6], 2);   // unused
  EXPECT_EQ(last_storage_uses(graph(), Uses::by_nodes_and_outputs)[8], 6);
}

TEST(Analysis, TokensNeedWhatDrewBefore) {
  IdMap<ValueId, bool> needed(graph().values.size(), false);
  needed[7] = true;
  EXPECT_EQ(needed_nodes(graph(), needed), (std::vector<bool>{0, 0, 1, 0, 0, 0}));
  EXPECT_TRUE(needed[2]);
  EXPECT_FALSE(needed[1]);
}

TEST(Analysis, DependenceFollowsDataAndNotTokens) {
  IdMap<ValueId, bool> depends(graph().values.size(), false);
  depends[4] = true;
  const auto none = [](int32_t) { return false; };
  EXPECT_EQ(dependent_nodes(graph(), depends, none), (std::vector<bool>{0, 1, 0, 1, 1, 1}));
  depends.assign(depends.size(), false);
  dependent_nodes(graph(), depends, [](int32_t position) { return position == 2; });
  EXPECT_TRUE(depends[6]);
  EXPECT_FALSE(depends[7]);
}

Node node_of(const char* op, int32_t tokens = 0) {
  Node node;
  node.op = Op::intern(op);
  node.tokens = tokens;
  return node;
}

TEST(Analysis, NodesWithSideEffectsOrTokensRunExactlyOnce) {
  for (const char* op : {"_c10d_functional::all_reduce.default", "aten::add_.Tensor"}) {
    EXPECT_TRUE(node_of(op).op.traits().has_side_effects()) << op;
    EXPECT_TRUE(node_of(op).must_run_once()) << op;
    EXPECT_FALSE(node_of(op).repeatable()) << op;
  }
  const Node print = node_of("aten::_print.default", 1);
  EXPECT_TRUE(print.op.traits().has_side_effects());
  EXPECT_FALSE(print.repeatable());
  EXPECT_FALSE(print.replayable());
  const Node draw = node_of("aten::bernoulli.p", 1);
  EXPECT_FALSE(draw.op.traits().has_side_effects());
  EXPECT_TRUE(draw.must_run_once());
  EXPECT_FALSE(node_of("aten::mm.default").must_run_once());
}

TEST(Analysis, WhatMayRunAgainGivesTheSameAsFarAsItWasWritten) {
  EXPECT_TRUE(node_of("aten::mm.default").repeatable());
  EXPECT_FALSE(node_of("aten::index_put.default").repeatable());  // sums in any order
  // A draw from the saved state. The operator itself is not repeatable.
  EXPECT_TRUE(node_of("aten::bernoulli.p", 1).repeatable());
  EXPECT_TRUE(node_of("aten::bernoulli.p", 1).replayable());
  EXPECT_FALSE(Op::intern("aten::bernoulli.p").traits().repeatable());
  // An operator with a token although its traits say that it does not draw.
  EXPECT_FALSE(node_of("aten::mm.default", 1).repeatable());
  for (const char* op : {"aten::empty.memory_format", "aten::empty_like.default"}) {
    EXPECT_TRUE(Op::intern(op).traits().uninitialized()) << op;
    EXPECT_FALSE(Op::intern(op).traits().repeatable()) << op;
    EXPECT_TRUE(node_of(op).repeatable()) << op;
  }
  EXPECT_FALSE(Op::intern("aten::zeros.default").traits().uninitialized());
  EXPECT_FALSE(Op::intern("aten::rand_like.default").traits().uninitialized());
}

}  // namespace analysis_test
}  // namespace antegrad::testing
