#include "graph/verify.h"

#include <gtest/gtest.h>

#include <antegrad/error.h>

#include "graphs.h"

namespace antegrad::testing {
namespace verify_test {

// One test per rule: the graph is valid except for what the test's name says.

const char* const kInputs = R"(generators cpu
inputs
  %0: f32[4, 2] primal argument 0 grad
  %1: f32[4, 2] primal argument 1 mutates_data
  %2: token generator 0
  %3: f32[4, 2] tangent 0
nodes
)";

void expect_violation(const std::string& nodes_and_outputs, const std::string& message) {
  const Graph graph = graph_of(kInputs + nodes_and_outputs);
  SCOPED_TRACE(nodes_and_outputs);
  expect_error<InternalError>([&] { verify(graph); }, message);
}

TEST(Verify, AcceptsTheGraphsThatComeWithTheTests) {
  for (const char* file : {"mlp.agraph", "dropout.agraph", "views.agraph"}) {
    EXPECT_NO_THROW(verify(graph_from_file(file))) << file;
  }
}

TEST(Verify, AcceptsAnEmptyGraph) { EXPECT_NO_THROW(verify(Graph())); }

TEST(Verify, NamesTheRuleAndShowsTheNode) {
  expect_violation("  %5: f32[4, 2] = aten::neg.default(%0, %1; %2)\noutputs\n", "breaks the rule");
  expect_violation(
      "  %5: f32[4, 2] = aten::neg.default(%6)\n  %6: f32[4, 2] = aten::neg.default(%0)\noutputs\n",
      "%5: f32[4, 2] = aten::neg.default(%6)");
}

TEST(Verify, EveryRuleHasAName) {
  EXPECT_GT(verifier_rules().size(), 15u);
  for (const std::string& rule : verifier_rules()) EXPECT_FALSE(rule.empty());
}

TEST(Verify, RefusesIdsBeyondTheTable) {
  Graph graph =
      graph_of(std::string(kInputs) + "  %5: f32[4, 2] = aten::neg.default(%0)\noutputs\n");
  graph.nodes[0].inputs[0] = 99;
  expect_error<InternalError>([&] { verify(graph); }, "every id names a value");
  graph.nodes[0].inputs[0] = kNoValue;
  expect_error<InternalError>([&] { verify(graph); }, "every id names a value");
  graph.nodes[0].inputs[0] = 0;
  graph.nodes[0].outputs[0] = 99;
  expect_error<InternalError>([&] { verify(graph); }, "every id names a value");
}

TEST(Verify, RefusesStoragesThatChangeOtherwise) {
  const auto violates = [](const std::string& record, const std::string& rest,
                           const std::string& message) {
    const Graph graph = graph_of("inputs\n  %0: f32[4] primal argument 0 " + record +
                                 "\n  %1: f32[4] primal argument 1\nnodes\n" + rest);
    SCOPED_TRACE(record);
    if (message.empty()) {
      EXPECT_NO_THROW(verify(graph));
    } else {
      expect_error<InternalError>([&] { verify(graph); }, message);
    }
  };
  const std::string fill = "  %2: f32[4] = aten::clone.default(%1)\noutputs\n  %2 mutated 0\n";
  violates("mutates_data allocates_storage 16", fill, "");
  violates("mutates_data allocates_storage 0", fill, "\"allocates_storage 0\"");
  violates("mutates_data empty_storage", fill, "\"empty_storage 0\"");
  violates("mutates_data frees_storage", fill, "\"frees_storage 0\"");
  violates("allocates_storage 16", "outputs\n", "\"allocates_storage 16\"");
  const std::string read = "  %2: f32[4] = aten::neg.default(%0)\noutputs\n  %2 result\n";
  violates("frees_storage", read, "");
  violates("empty_storage", read, "%0 has no memory in the forward");
  const std::string view = "  %2: f32[2, 2] &0 = aten::view.default(%0, [2, 2])\n";
  violates("empty_storage", view + "outputs\n", "");
  violates("empty_storage",
           view + "  %3: f32[2, 2] = aten::neg.default(%2)\noutputs\n  %3 result\n",
           "%2 has no memory in the forward");
  violates("empty_storage",
           "backward\n  %2: f32[4] = aten::neg.default(%0)\noutputs\n  %2 gradient 1\n", "");
}

TEST(Verify, RefusesASecondDefinition) {
  Graph graph = graph_of(std::string(kInputs) +
                         "  %5: f32[4, 2] = aten::neg.default(%0)\n"
                         "  %6: f32[4, 2] = aten::neg.default(%0)\noutputs\n");
  graph.nodes[1].outputs[0] = 5;
  expect_error<InternalError>([&] { verify(graph); }, "%5 is defined a second time");
  graph.inputs[1].value = 0;
  expect_error<InternalError>([&] { verify(graph); }, "%0 stands twice");
}

TEST(Verify, RefusesAUseBeforeTheDefinition) {
  expect_violation(
      "  %5: f32[4, 2] = aten::neg.default(%6)\n  %6: f32[4, 2] = aten::neg.default(%0)\noutputs\n",
      "%6 is used before its definition");
}

TEST(Verify, RefusesInputsThatNoArgumentTakes) {
  Graph graph =
      graph_of(std::string(kInputs) + "  %5: f32[4, 2] = aten::neg.default(%0)\noutputs\n");
  graph.nodes[0].inputs.push_back(1);
  expect_error<InternalError>([&] { verify(graph); }, "take 1 inputs and there are 2");
  graph.nodes[0].inputs.clear();
  expect_error<InternalError>([&] { verify(graph); }, "take 1 inputs and there are 0");
  graph.nodes[0].op = Op();
  expect_error<InternalError>([&] { verify(graph); }, "no operator");
}

TEST(Verify, RefusesTokensAmongData) {
  expect_violation("  %5: f32[4, 2] = aten::neg.default(%2)\noutputs\n", "token among data");
  expect_violation("  %5: f32[4, 2], %6: token = aten::bernoulli.p(%0, 0.5, none; %1)\noutputs\n",
                   "token among data");
  expect_violation("  %6: token, %5: f32[4, 2] = aten::bernoulli.p(%0, 0.5, none; %2)\noutputs\n",
                   "behind the other outputs");
  expect_violation("  %5: token = aten::neg.default(%0)\noutputs\n", "behind the other outputs");
}

TEST(Verify, RefusesATokenThatIsUsedTwice) {
  expect_violation(
      "  %5: f32[4, 2], %6: token = aten::bernoulli.p(%0, 0.5, none; %2)\n"
      "  %7: f32[4, 2], %8: token = aten::bernoulli.p(%0, 0.5, none; %2)\noutputs\n",
      "%2 was used before");
  expect_violation(
      "  %5: f32[4, 2], %6: token = aten::bernoulli.p(%0, 0.5, none; %2)\noutputs\n"
      "  %2 generator 0\n",
      "%2 is output and used");
}

TEST(Verify, RefusesADrawWithoutAToken) {
  expect_violation("  %5: f32[4, 2] = aten::bernoulli.p(%0, 0.5, none)\noutputs\n",
                   "without a token");
  expect_violation("  aten::_print.default(\"x\")\noutputs\n", "without a token");
}

// OpRow::draws_nothing: the probability of dropout is 0, or the flag `train` is false.
TEST(Verify, ACallThatDrawsNothingNeedsNoToken) {
  const auto dropout = [](const std::string& train) {
    return "  %5: f32[4, 2], %6: bool[4, 2] = aten::native_dropout.default(%0, 0.5, " + train +
           ")\noutputs\n";
  };
  const auto attention = [](const std::string& probability) {
    return "  %5: f32[4, 2] = aten::_scaled_dot_product_flash_attention.default(%0, %0, %0, " +
           probability + ", false)\noutputs\n";
  };
  for (const auto& draws : {dropout("true"), dropout("none"), attention("0.5")}) {
    expect_violation(draws, "without a token");
  }
  for (const auto& draws_nothing : {dropout("false"), attention("0.0")}) {
    const Graph graph =
        graph_of("inputs\n  %0: f32[4, 2] primal argument 0\nnodes\n" + draws_nothing);
    EXPECT_NO_THROW(verify(graph));
    EXPECT_TRUE(graph.nodes[0].repeatable());
    EXPECT_FALSE(graph.nodes[0].must_run_once());
  }
}

TEST(Verify, RefusesATensorWithoutAStrideForEachSize) {
  Graph graph = graph_of(std::string(kInputs) + "outputs\n");
  graph.value(0).meta.strides.pop_back();
  expect_error<InternalError>([&] { verify(graph); }, "a stride for each size");
}

TEST(Verify, RefusesASymbolWithoutAName) {
  Graph graph = graph_of(std::string(kInputs) + "outputs\n");
  graph.value(0).meta.sizes[0] = IntExpr::symbol(0) + 1;
  expect_error<InternalError>([&] { verify(graph); }, "every symbol has a name");
}

TEST(Verify, RefusesAForwardThatWaitsForTheBackward) {
  expect_violation("  %5: f32[4, 2] = aten::neg.default(%3)\noutputs\n",
                   "%3 belongs to the backward");
  expect_violation(
      "backward\n  %5: f32[4, 2] = aten::neg.default(%0)\n"
      "forward\n  %6: f32[4, 2] = aten::neg.default(%5)\noutputs\n",
      "%5 belongs to the backward");
}

TEST(Verify, RefusesAnInputThatIsAView) {
  Graph graph = graph_of(std::string(kInputs) + "outputs\n");
  graph.value(1).storage = 0;
  expect_error<InternalError>([&] { verify(graph); }, "an input owns its storage");
}

TEST(Verify, RefusesViewsThatShareNoStorageAndOthersThatDo) {
  expect_violation("  %5: f32[2, 4]{1, 2} = aten::t.default(%0)\noutputs\n",
                   "another storage than input 0");
  expect_violation("  %5: f32[4, 2] &0 = aten::neg.default(%0)\noutputs\n",
                   "is new and has the storage 0");
  expect_violation(
      "  %5: f32[2, 2] &0, %6: f32[2, 2]+4 &5 = aten::split.Tensor(%0, 2, 0)\noutputs\n",
      "%6 has another storage than input 0");
  expect_violation("  %5: f32[4, 2] = aten::neg_.default(%0)\noutputs\n",
                   "another storage than input 0");
}

TEST(Verify, RefusesReadingWhatWasOverwritten) {
  const std::string written =
      "  %5: f32[4, 2] = aten::neg.default(%0)\n"
      "  %6: f32[2, 4]{1, 2} &5 = aten::t.default(%5)\n"
      "  %7: f32[4, 2] &5 = aten::relu_.default(%5)\n";
  EXPECT_NO_THROW(verify(graph_of(kInputs + written + "outputs\n  %7 result\n")));
  expect_violation(written + "  %8: f32[4, 2] = aten::neg.default(%5)\noutputs\n",
                   "%5 was overwritten");
  expect_violation(written + "  %8: f32[2, 4] = aten::neg.default(%6)\noutputs\n",
                   "%6 was overwritten");
  expect_violation(written + "outputs\n  %5 result\n", "the output %5 was overwritten");
}

TEST(Verify, RefusesASavedViewAndASecondSave) {
  expect_violation("  %5: f32[2, 4]{1, 2} &0 = aten::t.default(%0)\noutputs\n  %5 saved\n",
                   "%5 is a view of storage 0");
  expect_violation("outputs\n  %0 saved\n  %0 saved\n", "%0 is saved twice");
  // The result of an in-place operator is not a view.
  EXPECT_NO_THROW(
      verify(graph_of(std::string(kInputs) + "  %5: f32[4, 2] = aten::neg.default(%0)\n"
                                             "  %7: f32[4, 2] &5 = aten::relu_.default(%5)\n"
                                             "outputs\n  none result\n  %7 saved\n")));
}

TEST(Verify, RefusesResultsThatShareStorageWithoutARecord) {
  const std::string view =
      "  %5: f32[4, 2] = aten::neg.default(%0)\n  %6: f32[2, 4]{1, 2} &5 = aten::t.default(%5)\n";
  expect_violation(view + "outputs\n  %5 result\n  %6 result\n", "has no alias record");
  expect_violation("outputs\n  %0 result\n", "has no alias record");
  EXPECT_NO_THROW(
      verify(graph_of(kInputs + view + "outputs\n  %5 result\n  %6 result view_of_output 0\n")));
  EXPECT_NO_THROW(verify(graph_of(std::string(kInputs) + "outputs\n  %0 result is_input 0\n")));
}

TEST(Verify, RefusesGradientsThatShareStorage) {
  const std::string nodes =
      "  %5: f32[4, 2] = aten::neg.default(%0)\nbackward\n"
      "  %6: f32[4, 2] = aten::neg.default(%3)\n  %7: f32[2, 4]{1, 2} &6 = aten::t.default(%6)\n";
  expect_violation(nodes + "outputs\n  %6 gradient 0\n  %7 gradient 1\n", "with another gradient");
  expect_violation(nodes + "outputs\n  %5 result\n  %5 gradient 0\n", "with a result");
  expect_violation(nodes + "outputs\n  %5 result\n  %1 gradient 0\n", "with a primal");
  EXPECT_NO_THROW(verify(graph_of(kInputs + nodes + "outputs\n  %5 result\n  %7 gradient 0\n")));
}

TEST(Verify, RefusesAnOrderThatTheCallingConventionDoesNotHave) {
  expect_violation("outputs\n  %2 generator 0\n  %0 result is_input 0\n", "%0 comes too late");
  const Graph graph =
      graph_of("inputs\n  %0: f32[2] tangent 0\n  %1: f32[2] primal\nnodes\noutputs\n");
  expect_error<InternalError>([&] { verify(graph); }, "%1 comes too late among the inputs");
}

TEST(Verify, RefusesTokensWithOtherRecords) {
  expect_violation("outputs\n  %2 result\n", "the output %2 is called result");
  expect_violation("outputs\n  %2 generator 1\n", "belongs to generator 1");
  expect_error<InternalError>(
      [] { verify(graph_of("inputs\n  %0: token primal\nnodes\noutputs\n")); },
      "the input %0 is called primal");
  expect_error<InternalError>(
      [] { verify(graph_of("inputs\n  %0: token generator 0\nnodes\noutputs\n")); },
      "belongs to generator 0");
}

TEST(Verify, RefusesUndefinedOutputsThatMustExist) {
  expect_violation("outputs\n  none mutated 1\n", "an output called mutated is none");
  EXPECT_NO_THROW(
      verify(graph_of(std::string(kInputs) + "outputs\n  none result\n  none gradient 0\n")));
}

TEST(Verify, RefusesInputRecordsThatReferToNothing) {
  expect_error<InternalError>(
      [] {
        verify(graph_of("inputs\n  %0: f32[2] primal\n  %1: f32[2] tangent 3\nnodes\noutputs\n"));
      },
      "belongs to output 3");
  expect_error<InternalError>(
      [] { verify(graph_of("inputs\n  %0: f32[2] primal gradient_of 4\nnodes\noutputs\n")); },
      "gradient of input 4");
}

TEST(Verify, RefusesOutputRecordsThatReferToNothing) {
  const std::string node = "  %5: f32[4, 2] = aten::neg.default(%0)\noutputs\n";
  expect_violation(node + "  %5 mutated 0\n", "not marked as mutated");
  expect_violation(node + "  %5 mutated 7\n", "belongs to input 7");
  expect_violation(node + "  %5 result\n  none gradient 2\n", "belongs to input 2");
}

TEST(Verify, RefusesAliasRecordsThatReferToNothing) {
  const std::string node = "  %5: f32[4, 2] = aten::neg.default(%0)\noutputs\n";
  expect_violation(node + "  %5 result is_input 2\n", "is_input 2");
  expect_violation(node + "  %5 result view_of_output 4\n", "view_of_output 4");
}

}  // namespace verify_test
}  // namespace antegrad::testing
