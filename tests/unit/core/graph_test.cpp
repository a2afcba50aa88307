#include "graph/graph.h"

#include <gtest/gtest.h>

#include "graphs.h"

namespace antegrad::testing {
namespace graph_test {

TensorMeta meta(Shape sizes, Shape strides, DType dtype = DType::f32) {
  TensorMeta result;
  result.dtype = dtype;
  result.sizes = std::move(sizes);
  result.strides = std::move(strides);
  return result;
}

TEST(TensorMeta, ContiguousStridesAreThoseOfLibtorch) {
  EXPECT_EQ(contiguous_strides({2, 3, 4}), (Shape{12, 4, 1}));
  EXPECT_EQ(contiguous_strides({2, 0, 4}), (Shape{4, 4, 1}));
  EXPECT_EQ(contiguous_strides({}), Shape{});
  const IntExpr s = IntExpr::symbol(0);
  EXPECT_EQ(contiguous_strides({3, s}), (Shape{s, 1}));
}

TEST(TensorMeta, StridesOfSingleRowsDoNotMatterForContiguity) {
  EXPECT_TRUE(is_contiguous(meta({1, 4}, {99, 1})));
  EXPECT_TRUE(is_contiguous(meta({0, 4}, {7, 7})));
  EXPECT_FALSE(is_contiguous(meta({4, 2}, {1, 4})));
  EXPECT_FALSE(is_contiguous(meta({4, 2}, {0, 1})));
}

TEST(TensorMeta, SpanReachesFromFirstToLastElement) {
  EXPECT_EQ(span_bytes(meta({2, 3}, {3, 1})), IntExpr(24));
  EXPECT_EQ(span_bytes(meta({2, 3}, {10, 1})), IntExpr(52));
  EXPECT_EQ(span_bytes(meta({5, 3}, {0, 1})), IntExpr(12));
  EXPECT_EQ(span_bytes(meta({5, 0}, {1, 1})), IntExpr(0));
  EXPECT_EQ(span_bytes(meta({}, {}, DType::f64)), IntExpr(8));
  EXPECT_EQ(numel(meta({2, 3}, {10, 1})), IntExpr(6));
}

TEST(Graph, NewTensorsOwnTheirStorage) {
  Graph graph;
  graph.add_token();
  const ValueId id = graph.add_tensor(meta({2}, {1}));
  EXPECT_EQ(id, ValueId(1));
  EXPECT_TRUE(graph.owns_storage(id));
  EXPECT_EQ(graph.value(id).alias_class, StorageId(id));
  EXPECT_EQ(graph.value(0).kind, ValueKind::token);
}

TEST(Graph, NodesAreErasedByPosition) {
  Graph graph;
  for (int32_t id = 0; id < 5; ++id) graph.nodes.emplace_back().id = id;
  erase_nodes(graph, {false, true, true, false, true});
  ASSERT_EQ(graph.nodes.size(), 2u);
  EXPECT_EQ(graph.nodes[0].id, 0);
  EXPECT_EQ(graph.nodes[1].id, 3);
}

TEST(Graph, NodesAreNumberedUnlessAllHaveIdsOfTheirOwn) {
  Graph graph;
  for (const int32_t id : {7, 3}) {
    graph.nodes.emplace_back();
    graph.nodes.back().id = id;
  }
  number_nodes(graph);
  EXPECT_EQ(graph.nodes[0].id, 7);
  graph.nodes[1].id = 7;
  number_nodes(graph);
  EXPECT_EQ(graph.nodes[0].id, 0);
  EXPECT_EQ(graph.nodes[1].id, 1);
}

}  // namespace graph_test
}  // namespace antegrad::testing
