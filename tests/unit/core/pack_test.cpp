#include "graph/pack.h"

#include <gtest/gtest.h>

#include <limits>

#include "graph/compare.h"
#include "graph/parse.h"
#include "graph/text.h"
#include "reference_files.h"

namespace antegrad::testing {
namespace pack_test {

TEST(Pack, KeepsEveryMember) {
  Graph graph;
  graph.name = "all members";
  graph.symbols = {"s0"};
  graph.generators = {"cpu"};
  graph.opaque_names = {"group"};
  graph.blocks = {-1, 0};
  TensorMeta meta{DType::c64, {DeviceKind::cuda, 1}, {IntExpr::symbol(0) * 2, 3}, {3, 1}, 7};
  const auto dead = graph.add_tensor(meta);
  const auto x = graph.add_tensor(meta);
  meta.offset = std::numeric_limits<int64_t>::max();
  const auto y = graph.add_tensor(meta);
  const auto token = graph.add_token();
  graph.value(y).storage = StorageId(x);
  graph.value(y).alias_class = StorageId(dead);
  graph.inputs.push_back({x,
                          InputKind::primal,
                          {Source::Kind::buffer, 2, "a.b", Source::Via::span},
                          true,
                          true,
                          true,
                          true,
                          InputStorage::allocates,
                          64,
                          5,
                          6});
  Node node;
  node.op = Op::intern("pack::op.default");
  node.inputs = {x, token};
  node.args = {attr::Input{}, std::numeric_limits<double>::quiet_NaN(), attr::InputList{{false}},
               IntExpr(std::numeric_limits<int64_t>::min())};
  node.outputs = {kNoValue, y};
  node.tokens = 1;
  node.phase = Phase::backward;
  node.id = 41;
  node.block = 1;
  node.recompute = Recompute::must_save;
  graph.nodes = {node, node};
  graph.outputs.push_back({y,
                           OutputKind::base,
                           3,
                           {OutputAlias::Kind::data_of_output, 4},
                           true,
                           true,
                           true,
                           9,
                           OwnView::without_grad});
  graph.outputs.push_back({});

  const auto again = PackedGraph(graph).unpack();
  EXPECT_EQ(first_difference(again, graph), "");
  ASSERT_EQ(again.values.size(), graph.values.size());
  EXPECT_EQ(again.value(dead).meta, graph.value(dead).meta);
  EXPECT_TRUE(again.owns_storage(dead));
}

TEST(Pack, TheEmptyGraph) { EXPECT_EQ(to_text(PackedGraph(Graph()).unpack()), to_text(Graph())); }

TEST(Pack, GraphsOfModelsTakeFewBytes) {
  for (const auto& file : graph_files()) {
    const auto graph = parse_graph(reference_text(file + ".agraph"));
    const PackedGraph packed(graph);
    EXPECT_EQ(first_difference(packed.unpack(), graph), "") << file;
    const auto per_node =
        static_cast<double>(packed.bytes()) / static_cast<double>(graph.nodes.size());
    EXPECT_LT(per_node, 64) << file;
  }
}

}  // namespace pack_test
}  // namespace antegrad::testing
