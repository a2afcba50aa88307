#include "graph/hash.h"

#include <functional>

#include <gtest/gtest.h>

#include "graph/compare.h"
#include "graph/pack.h"
#include "graphs.h"

namespace antegrad::testing {
namespace hash_test {

Graph sample() {
  return graph_of(R"(symbols s0
generators cpu
inputs
  %0: f32[8, s0] primal argument 0 grad
  %1: token generator 0
  %9: f32[8, s0] tangent 0
nodes
  %2: f32[8, s0], %3: token = aten::bernoulli.p(%0, 0.9, none; %1)  # 0
  %4: f32[s0, 8]{1, s0} &2 = aten::t.default(%2)  # 1
backward
  %5: f32[8, s0] = aten::mul.Scalar(%9, scalar(2))  # 2
outputs
  %4 result grad
  %3 generator 0
  %5 gradient 0
)");
}

TEST(Hash, DoesNotDependOnNamesAndNumbering) {
  const Graph graph = sample();
  Graph renamed = graph;
  renamed.name = "other";
  for (Node& node : renamed.nodes) node.id += 100;
  EXPECT_EQ(structural_hash(renamed), structural_hash(graph));

  const Graph renumbered = graph_of(R"(symbols s0
generators cpu
inputs
  %10: f32[8, s0] primal argument 0 grad
  %11: token generator 0
  %3: f32[8, s0] tangent 0
nodes
  %7: f32[8, s0], %2: token = aten::bernoulli.p(%10, 0.9, none; %11)
  %6: f32[s0, 8]{1, s0} &7 = aten::t.default(%7)
backward
  %5: f32[8, s0] = aten::mul.Scalar(%3, scalar(2))
outputs
  %6 result grad
  %2 generator 0
  %5 gradient 0
)");
  EXPECT_EQ(structural_hash(renumbered), structural_hash(graph));
}

TEST(Hash, DependsOnEverythingElseAndSoDoTheComparisonAndThePackedForm) {
  const std::pair<const char*, std::function<void(Graph&)>> changes[] = {
      {"symbol", [](Graph& g) { g.symbols[0] = "n"; }},
      {"generator", [](Graph& g) { g.generators[0] = "cuda:0"; }},
      {"opaque", [](Graph& g) { g.opaque_names = {"x"}; }},
      {"dtype", [](Graph& g) { g.value(0).meta.dtype = DType::f16; }},
      {"size", [](Graph& g) { g.value(0).meta.sizes[0] = 9; }},
      {"stride", [](Graph& g) { g.value(4).meta.strides[0] = 2; }},
      {"offset", [](Graph& g) { g.value(4).meta.offset = 1; }},
      {"device", [](Graph& g) { g.value(0).meta.device.kind = DeviceKind::cuda; }},
      {"storage", [](Graph& g) { g.value(4).storage = 4; }},
      {"alias class", [](Graph& g) { g.value(9).alias_class = 0; }},
      {"input kind", [](Graph& g) { g.inputs[0].kind = InputKind::saved; }},
      {"input index", [](Graph& g) { g.inputs[2].index = 1; }},
      {"source", [](Graph& g) { g.inputs[0].source.name = "w"; }},
      {"source index", [](Graph& g) { g.inputs[0].source.index = 1; }},
      {"grad", [](Graph& g) { g.inputs[0].requires_grad = false; }},
      {"mutation", [](Graph& g) { g.inputs[0].mutates_data = true; }},
      {"inner input", [](Graph& g) { g.inputs[0].inner = true; }},
      {"storage of an input", [](Graph& g) { g.inputs[0].storage = InputStorage::frees; }},
      {"bytes of a storage",
       [](Graph& g) {
         g.inputs[0].storage = InputStorage::allocates;
         g.inputs[0].storage_bytes = 64;
       }},
      {"operator", [](Graph& g) { g.nodes[0].op = Op::intern("aten::rand_like.default"); }},
      {"argument", [](Graph& g) { g.nodes[0].args[1] = 0.8; }},
      {"kind of scalar", [](Graph& g) { g.nodes[2].args[1] = attr::Scalar{2.0}; }},
      {"input", [](Graph& g) { g.nodes[2].inputs[0] = 0; }},
      {"phase", [](Graph& g) { g.nodes[2].phase = Phase::forward; }},
      {"order", [](Graph& g) { std::swap(g.nodes[1], g.nodes[2]); }},
      {"result", [](Graph& g) { g.outputs[0].value = 2; }},
      {"undefined result", [](Graph& g) { g.outputs[2].value = kNoValue; }},
      {"alias", [](Graph& g) { g.outputs[0].alias.kind = OutputAlias::Kind::view_of_input; }},
      {"output index", [](Graph& g) { g.outputs[2].index = 1; }},
      {"source's via", [](Graph& g) { g.inputs[0].source.via = Source::Via::base; }},
      {"version bumps", [](Graph& g) { g.inputs[0].version_bumps = 1; }},
      {"output leaf", [](Graph& g) { g.outputs[0].leaf = true; }},
      {"output version", [](Graph& g) { g.outputs[0].version = 1; }},
      {"output grad", [](Graph& g) { g.outputs[0].requires_grad = false; }},
      {"fewer outputs", [](Graph& g) { g.outputs.pop_back(); }},
  };
  const Hash128 hash = structural_hash(sample());
  for (const auto& [what, change] : changes) {
    Graph changed = sample();
    change(changed);
    EXPECT_NE(structural_hash(changed), hash) << what;
    EXPECT_NE(first_difference(changed, sample()), "") << what;
    EXPECT_NE(PackedGraph(changed).hash(), PackedGraph(sample()).hash()) << what;
  }
}

TEST(Hash, IsTheSameInEachProcess) {
  // If this number changes, stored entries become unreadable: change the format version as well.
  EXPECT_EQ(to_string(structural_hash(sample())), "5c883bd5f7c3f23ed3f7913d70eb56a8");
}

}  // namespace hash_test
}  // namespace antegrad::testing
