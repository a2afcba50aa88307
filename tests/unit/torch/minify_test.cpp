// Graphs that fail shrink to graphs that fail alike.

#include "minify/minify.h"

#include <ATen/ATen.h>
#include <antegrad/error.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iostream>
#include <sstream>

#include "broken_passes.h"
#include "graph/parse.h"
#include "graph/text.h"
#include "graph/verify.h"
#include "minify/inputs.h"
#include "minify/interpreter.h"
#include "minify/sizes.h"

namespace antegrad::testing {
namespace minify_test {

using minify::Subject;

Graph reference(std::string_view name) {
  std::ifstream file(std::string(ANTEGRAD_TEST_DATA) + "/reference/" + std::string(name) +
                     ".agraph");
  EXPECT_TRUE(file) << name;
  std::stringstream text;
  text << file.rdbuf();
  auto graph = parse_graph(text.str(), std::string(name));
  number_nodes(graph);
  return graph;
}

TEST(Minify, NothingFailsInTheReferenceGraphs) {
  for (const char* name : {"mlp", "mlp_autocast", "gpt", "resnet", "vae", "graphnet", "unet"}) {
    const Subject subject{.graph = reference(name), .options = {}};
    EXPECT_EQ(minify::not_runnable(subject), "") << name;
    const auto failure = minify::first_failure(subject);
    EXPECT_FALSE(failure) << name << " " << failure->stage << ", " << failure->pass << ": "
                          << failure->what;
  }
}

class BrokenPasses : public ::testing::TestWithParam<BrokenPass> {};

TEST_P(BrokenPasses, ShrinkToAtMostFiveNodes) {
  const auto& broken = GetParam();
  const Subject subject{.graph = reference(broken.graph), .options = {}, .after = broken.after()};
  const auto failure = minify::first_failure(subject);
  ASSERT_TRUE(failure) << "nothing noticed";
  EXPECT_EQ(failure->pass, broken.pass) << failure->what;
  const auto small = minify::minify(subject, *failure);
  std::cout << broken.name << ": " << small.subject.graph.nodes.size() << " of "
            << subject.graph.nodes.size() << " nodes; " << small.failure.stage << ", "
            << small.failure.pass << ": " << small.failure.what << "\n";
  EXPECT_LE(small.subject.graph.nodes.size(), 5U) << to_text(small.subject.graph);
  EXPECT_GE(small.subject.graph.nodes.size(), 1U);
  verify(small.subject.graph);
  // The same bug, not another: it is gone without the break.
  const auto other = minify::first_failure({.graph = small.subject.graph, .options = {}});
  EXPECT_FALSE(other) << other->stage << ": " << other->what << to_text(small.subject.graph);
  const auto again = minify::first_failure(small.subject, failure->stage, &failure->settings);
  ASSERT_TRUE(again);
  EXPECT_TRUE(again->is_like(*failure));
}

INSTANTIATE_TEST_SUITE_P(All, BrokenPasses, ::testing::ValuesIn(broken_passes()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Minify, TheScriptHasGraphStageAndOptions) {
  const auto& broken = broken_passes().front();
  Subject subject{.graph = reference(broken.graph), .options = {}, .after = broken.after()};
  subject.options.verify_graphs = !subject.options.verify_graphs;
  const auto failure = minify::first_failure(subject);
  ASSERT_TRUE(failure);
  const auto script = minify::reproducing_script({subject, *failure, {}});
  EXPECT_NE(script.find("minify --check --stage simplify --seed 0"), std::string::npos) << script;
  EXPECT_NE(script.find("--set 'verify_graphs="), std::string::npos) << script;
  const auto begin = script.find("antegrad.graph"), end = script.rfind("END\n");
  ASSERT_NE(begin, std::string::npos);
  EXPECT_EQ(to_text(parse_graph(script.substr(begin, end - begin))), to_text(subject.graph));
}

TEST(Minify, ALaterStageIsNotBlamedForAnEarlierOne) {
  EXPECT_THROW(minify::stage_named("no such stage"), OptionError);
  const auto names = minify::stages();
  EXPECT_EQ(names.front().name, "graph");
  EXPECT_EQ(names.back().name, "autograd");
}

TEST(Interpreter, AKernelThatReturnsAnotherTensorIsNamed) {
  auto graph = parse_graph(R"(antegrad.graph 1 "wrong"
inputs
  %0: f32[2, 3]                       primal argument 0
nodes
  %1: f32[2, 4] = aten::exp.default(%0)
outputs
  %1 result
)");
  const auto failure = minify::first_failure({.graph = graph, .options = {}});
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->stage, "capture");
  EXPECT_NE(failure->what.find("aten::exp"), std::string::npos) << failure->what;
}

TEST(MadeUpInputs, StayTheSameForAnInputAndAreValidIndices) {
  const auto graph = reference("gpt");
  const auto first = minify::make_inputs(graph, 1, minify::Data::normal);
  const auto second = minify::make_inputs(graph, 1, minify::Data::normal);
  const auto other = minify::make_inputs(graph, 2, minify::Data::normal);
  bool indices = false;
  for (size_t i = 0; i < first.size(); ++i) {
    if (!first[i].defined()) continue;
    EXPECT_TRUE(at::equal(first[i], second[i]));
    EXPECT_TRUE(!first[i].is_floating_point() || !at::equal(first[i], other[i]));
    indices =
        indices || (first[i].scalar_type() == at::kLong && first[i].max().item<int64_t>() > 1);
  }
  EXPECT_TRUE(indices);
}

TEST(SmallerSizes, KernelsSayWhatBecomesOfTheRest) {
  auto graph = parse_graph(R"(antegrad.graph 1 "sizes"
inputs
  %0: f32[8, 6]                       primal argument 0
nodes
  %1: f32[6, 8]{1, 6} &0 = aten::t.default(%0)
  %2: f32[6, 6] = aten::mm.default(%1, %0)
outputs
  %2 result
)");
  EXPECT_EQ(minify::input_sizes(graph), (std::vector<int64_t>{8, 6}));
  const auto smaller = minify::resized(graph, 6, 2);
  ASSERT_TRUE(smaller);
  verify(*smaller);
  EXPECT_EQ(smaller->value(smaller->nodes[1].outputs[0]).meta.sizes, (Shape{2, 2}));
}

}  // namespace minify_test
}  // namespace antegrad::testing
