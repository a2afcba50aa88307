#include "graph/text.h"

#include <bit>
#include <cmath>

#include <gtest/gtest.h>

#include "graphs.h"

namespace antegrad::testing {
namespace text_test {

/// A graph that uses every part of the format.
const char* const kEverything = R"(antegrad.graph 1 "train_step"
symbols    s0, s1 "sequence length"
generators cpu, cuda:0
opaque     process_group, "with blank"
inputs
  %0: f32[8, 64]                      primal parameter "h.0.weight" grad frees_storage
  %1: f32[8, s0]{1, 8}+4 cuda:0 ~0    primal argument 0 mutates_data mutates_metadata inner allocates_storage 64 version 3
  %2: bf16[]                          primal gradient_of 0 base
  %3: i64[2]                          primal anonymous "aten::add" span empty_storage
  %4: int                             primal constant
  %5: token                           generator 0
  %6: token                           effect
  %7: f32[8, 64]                      tangent 0
nodes
  %8: f32[8, 64], none, %9: token = aten::native_dropout.default(%0, 0.9, true; %5)     # 0
  %10: f32[8, 64]{1, 8} &8 = aten::t.default(%8)                                        # 1
  aten::_print.default("a \"b\"\n\x01")
backward
  %11: f32[(4*s0 + 1), min(s0, s1)] = mine::op.default({%8, none, %10}, [1, s0], scalar(2))
forward
  %12: float = mine::op.default({}, [], none)
outputs
  %8 result grad
  %10 result view_of_output 0
  %10 result same_as_output 1
  %10 result no_grad_view_of_input 0
  %10 result detached_from_output 7 grad leaf inner version 2
  %10 result detached_from_input 0 grad in_function
  %10 result detached_from_input 0 version 1 without_grad
  %0 result is_input 0
  none result
  %8 base grad
  %8 mutated 1
  %9 generator 0
  %6 effect
  %11 gradient 0
  none gradient 1
)";

TEST(Text, EveryPartReadsBackToTheSameText) {
  const Graph graph = parse_graph(kEverything);
  const std::string text = to_text(graph);
  const Graph again = parse_graph(text);
  expect_same(again, graph);
  EXPECT_EQ(to_text(again), text);
}

TEST(Text, ReadsWhatItSays) {
  const Graph graph = parse_graph(kEverything);
  EXPECT_EQ(graph.name, "train_step");
  EXPECT_EQ(graph.symbols, (std::vector<std::string>{"s0", "sequence length"}));
  EXPECT_EQ(graph.opaque_names, (std::vector<std::string>{"process_group", "with blank"}));
  const TensorMeta& meta = graph.value(1).meta;
  EXPECT_EQ(meta.sizes, (Shape{8, IntExpr::symbol(0)}));
  EXPECT_EQ(meta.strides, (Shape{1, 8}));
  EXPECT_EQ(meta.offset, IntExpr(4));
  EXPECT_EQ(meta.device, (Device{DeviceKind::cuda, 0}));
  EXPECT_EQ(graph.value(1).alias_class, StorageId(0));
  EXPECT_EQ(graph.value(10).storage, StorageId(8));
  EXPECT_EQ(graph.value(10).alias_class, StorageId(8));
  EXPECT_EQ(graph.inputs[0].source, (Source{Source::Kind::parameter, -1, "h.0.weight"}));
  EXPECT_TRUE(graph.inputs[1].mutates_metadata);
  EXPECT_TRUE(graph.inputs[1].inner);
  EXPECT_EQ(graph.inputs[1].version_bumps, 3);
  EXPECT_EQ(graph.inputs[2].source.via, Source::Via::base);
  EXPECT_EQ(graph.inputs[3].source.via, Source::Via::span);
  EXPECT_EQ(graph.nodes[0].tokens, 1);
  EXPECT_EQ(graph.nodes[0].outputs[1], kNoValue);
  EXPECT_EQ(graph.nodes[1].id, 1);
  EXPECT_EQ(graph.nodes[3].phase, Phase::backward);
  EXPECT_EQ(graph.nodes[3].id, -1);
  EXPECT_EQ(graph.nodes[4].phase, Phase::forward);
  EXPECT_EQ(graph.outputs[1].alias, (OutputAlias{OutputAlias::Kind::view_of_output, 0}));
  EXPECT_EQ(graph.outputs[4].alias, (OutputAlias{OutputAlias::Kind::detached_from_output, 7}));
  EXPECT_TRUE(graph.outputs[4].leaf);
  EXPECT_TRUE(graph.outputs[4].inner);
  EXPECT_EQ(graph.outputs[4].version, 2);
  EXPECT_EQ(graph.outputs[5].own_view, OwnView::in_function);
  EXPECT_EQ(graph.outputs[6].own_view, OwnView::without_grad);
  EXPECT_EQ(graph.outputs[9].kind, OutputKind::base);
}

TEST(Text, EveryKindOfArgumentReadsBack) {
  const double odd_nan = std::bit_cast<double>(uint64_t{0xFFF8000000000001});
  const std::vector<Attr> attrs = {attr::None{},
                                   IntExpr(-3),
                                   IntExpr::symbol(0) * 4 + 1,
                                   IntExpr::floor_div(IntExpr::symbol(0), 2),
                                   0.1,
                                   -0.0,
                                   1e300,
                                   5e-324,
                                   3.0,
                                   std::nan(""),
                                   odd_nan,
                                   INFINITY,
                                   -INFINITY,
                                   true,
                                   false,
                                   std::complex<double>(1, -0.0),
                                   std::string("a\"\\\n\t\x01 \xC3\xA9"),
                                   std::string(),
                                   DType::bf16,
                                   DType::boolean,
                                   attr::Layout{"strided"},
                                   attr::Layout{"with blank"},
                                   attr::MemoryFormat{"channels_last"},
                                   Device{},
                                   Device{DeviceKind::cuda, 1},
                                   attr::Generator{0},
                                   attr::Opaque{0},
                                   attr::Scalar{IntExpr(2)},
                                   attr::Scalar{2.0},
                                   attr::Scalar{true},
                                   attr::Scalar{std::complex<double>(0, 1)},
                                   attr::WrappedNumber{{0.9}, DType::f64},
                                   attr::WrappedNumber{{IntExpr(2)}, DType::i64},
                                   Shape{},
                                   Shape{1, IntExpr::symbol(0)},
                                   std::vector<double>{},
                                   std::vector<double>{0.5, 2},
                                   std::vector<bool>{},
                                   std::vector<bool>{true, false},
                                   std::vector<std::string>{},
                                   std::vector<std::string>{"a", ""},
                                   std::vector<attr::Scalar>{},
                                   std::vector<attr::Scalar>{{IntExpr(1)}, {2.5}}};
  Graph graph;
  graph.name = "attrs";
  graph.symbols = {"s0"};
  Node node;
  node.op = Op::intern("mine::many_arguments.default");
  node.args = attrs;
  graph.nodes.push_back(node);
  const Graph again = parse_graph(to_text(graph));
  ASSERT_EQ(again.nodes[0].args.size(), attrs.size());
  for (size_t i = 0; i < attrs.size(); ++i) {
    EXPECT_EQ(again.nodes[0].args[i], attrs[i]) << i << ": " << attr_text(attrs[i], nullptr);
  }
}

TEST(Text, NamesArgumentsThatAreDeclared) {
  OpInfo info;
  info.name = "mine::named.default";
  info.arg_names = {"self", "p", "generator"};
  Op::declare(info);
  const Graph graph = graph_of(R"(inputs
  %0: f32[2] primal
nodes
  %1: f32[2] = mine::named.default(%0, p=0.5, none)
outputs
)");
  EXPECT_EQ(node_text(graph, graph.nodes[0]),
            "%1: f32[2] = mine::named.default(%0, p=0.5, generator=none)");
}

TEST(Text, NamesFromATextPrintAgain) {
  const Graph graph = graph_of("inputs\nnodes\n  mine::named_once.default(1, q=2)\noutputs\n");
  EXPECT_EQ(node_text(graph, graph.nodes[0]), "mine::named_once.default(1, q=2)");
}

TEST(Text, PrintsBrokenNodesWithoutFailing) {
  Graph graph;
  Node node;
  node.outputs = {5, kNoValue};
  EXPECT_EQ(node_text(graph, node), "%5: ?, none = ?");
  node.op = Op::intern("aten::add.Tensor");
  node.args = {attr::Input{}, attr::InputList{{true, true}}};
  node.inputs = {7, 8};
  EXPECT_NE(node_text(graph, node).find("%?"), std::string::npos);
}

}  // namespace text_test
}  // namespace antegrad::testing
