// Shrinking of graphs that fail.

#include "shrink/shrink.h"

#include <gtest/gtest.h>

#include <antegrad/error.h>

#include <algorithm>
#include <string>

#include "graph/verify.h"
#include "graphs.h"
#include "shrink/edit.h"

namespace antegrad::testing {
namespace shrink_test {

int count(const Graph& graph, const std::string& op) {
  return static_cast<int>(std::ranges::count_if(
      graph.nodes, [&](const Node& node) { return node.op.info().base_name == op; }));
}

// Fails while all of these operators are in the graph.
Graph shrunk_to(const Graph& graph, const std::vector<std::string>& ops) {
  const Graph small = shrink(graph, {.fails = [&](const Graph& candidate) {
                               verify(candidate);
                               return std::ranges::all_of(ops, [&](const std::string& op) {
                                 return count(candidate, op) > 0;
                               });
                             }});
  verify(small);
  return small;
}

TEST(Shrink, EveryOperatorOfTheReferenceGraphsIsLeftAlone) {
  for (const char* name : {"mlp", "gpt", "resnet", "vae"}) {
    const Graph graph = graph_from_file("reference/" + std::string(name) + ".agraph");
    for (const Node& node : graph.nodes) {
      const std::string op = node.op.info().base_name;
      // A view of what only a tangent or another result may hold needs a node beside it.
      const size_t most = node.op.traits().view ? 2 : 1;
      const Graph small = shrunk_to(graph, {op});
      ASSERT_LE(small.nodes.size(), most) << op << " in " << name << "\n" << to_text(small);
    }
  }
}

TEST(Shrink, TwoOperatorsThatAreFarApartAreLeft) {
  const Graph graph = graph_from_file("reference/gpt.agraph");
  const Graph small = shrunk_to(graph, {"aten::embedding", "aten::embedding_dense_backward"});
  EXPECT_EQ(small.nodes.size(), 2U) << to_text(small);
}

// The failure is a path: mm, then anything, then relu.
TEST(Shrink, ARelationBetweenOperatorsIsKept) {
  const Graph graph = graph_from_file("mlp.agraph");
  const auto fails = [](const Graph& candidate) {
    IdMap<ValueId, bool> product(candidate.values.size(), false);
    bool found = false;
    for (const Node& node : candidate.nodes) {
      const bool reads = std::ranges::any_of(node.inputs, [&](ValueId id) { return product[id]; });
      const bool multiplies =
          node.op.info().base_name == "aten::addmm" || node.op.info().base_name == "aten::mm";
      found = found || (reads && node.op.info().base_name == "aten::relu");
      for (const ValueId id : node.results()) {
        if (id != kNoValue) product[id] = reads || multiplies;
      }
    }
    return found;
  };
  ASSERT_TRUE(fails(graph));
  const Graph small = shrink(graph, {.fails = fails});
  EXPECT_TRUE(fails(small));
  EXPECT_EQ(small.nodes.size(), 2U) << to_text(small);
}

TEST(Shrink, ItTellsOfEachSmallerGraphAndStopsWhenAsked) {
  const Graph graph = graph_from_file("reference/gpt.agraph");
  size_t last = graph.nodes.size();
  int told = 0;
  const Graph small = shrink(graph, {.fails = [](const Graph&) { return true; },
                                     .found =
                                         [&](const Graph& found) {
                                           EXPECT_LE(found.nodes.size(), last);
                                           last = found.nodes.size();
                                           ++told;
                                         },
                                     .stop = [&] { return told > 0; }});
  EXPECT_EQ(told, 1);
  EXPECT_EQ(small.nodes.size(), last);
}

TEST(Shrink, NothingIsLostWhereNothingSmallerFails) {
  const Graph graph = graph_from_file("mlp.agraph");
  expect_same(shrink(graph, {.fails = [](const Graph&) { return false; }}), graph);
}

// Brute force: each edit of each node and each output leaves a graph that parses, and that is valid
// where no storage comes to be handed out twice.
TEST(Edit, EveryCutOfOneNodeIsWellFormed) {
  for (const char* name : {"dropout.agraph", "mlp.agraph", "views.agraph"}) {
    const Graph graph = graph_from_file(name);
    int valid = 0, invalid = 0;
    const auto check = [&](const Graph& edited) {
      EXPECT_LE(edited.nodes.size(), graph.nodes.size());
      expect_same(parse_graph(to_text(edited)), edited);
      try {
        verify(edited);
        ++valid;
      } catch (const InternalError& error) {
        EXPECT_NE(std::string(error.what()).find("storage"), std::string::npos) << error.what();
        ++invalid;
      }
    };
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      std::vector<bool> one(graph.nodes.size(), false);
      one[i] = true;
      for (const Cut cut : {Cut{}, Cut{true, false}, Cut{false, true}, Cut{true, true}}) {
        check(without_nodes(graph, one, cut));
      }
    }
    for (size_t i = 0; i < graph.outputs.size(); ++i) {
      std::vector<bool> one(graph.outputs.size(), false);
      one[i] = true;
      check(without_outputs(graph, one));
    }
    EXPECT_GT(valid, invalid) << name;
  }
}

}  // namespace shrink_test
}  // namespace antegrad::testing
