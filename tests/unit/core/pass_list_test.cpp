#include "passes/pass_list.h"

#include <algorithm>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include <antegrad/error.h>
#include <antegrad/passes.h>

#include "graph/verify.h"
#include "graphs.h"
#include "options/words.h"
#include "passes/custom_pass.h"

namespace antegrad::testing {
namespace pass_list_test {

const char* const kTwice = R"(inputs
  %0: f32[4] primal argument 0
nodes
  %1: f32[4] = aten::exp.default(%0)  # 0
  %2: f32[4] = aten::exp.default(%0)  # 1
  %3: f32[4] = aten::add.Tensor(%1, %2, scalar(1))  # 2
outputs
  %3 result
)";

PassContext with_custom(const std::string& name) {
  PassContext context;
  context.custom_pass = name;
  return context;
}

TEST(PassList, OptionalPassesAreThoseOfTheOption) {
  std::set<std::string_view> optional;
  for (const PassRow& row : pass_rows()) {
    if (row.optional) optional.insert(row.name);
    EXPECT_FALSE(row.what.empty() || row.why.empty()) << row.name;
    EXPECT_EQ(row.run != nullptr, row.stage == PassStage::joint) << row.name;
  }
  const auto& words = kWords<OptionalPass>;
  EXPECT_EQ(optional, std::set<std::string_view>(words.begin(), words.end()));
}

TEST(PassList, StagesStandInTheOrderInWhichTheyRun) {
  const auto rows = pass_rows();
  EXPECT_TRUE(std::is_sorted(rows.begin(), rows.end(),
                             [](const PassRow& a, const PassRow& b) { return a.stage < b.stage; }));
}

TEST(PassList, ADisabledPassDoesNotRun) {
  PassContext context;
  EXPECT_EQ(run_joint_passes(graph_of(kTwice), context).nodes.size(), 2u);
  context.disabled = {"cse"};
  EXPECT_EQ(run_joint_passes(graph_of(kTwice), context).nodes.size(), 3u);
}

TEST(CustomPass, ChangesTheGraphBeforeItIsSimplified) {
  register_joint_pass("sine", [](const std::string& text) {
    std::string changed = text;
    const auto second = changed.rfind("aten::exp");
    return changed.replace(second, 9, "aten::sin");
  });
  const Graph graph = run_joint_passes(graph_of(kTwice), with_custom("sine"));
  ASSERT_EQ(graph.nodes.size(), 3u);
  EXPECT_EQ(graph.nodes[1].op.name(), "aten::sin.default");
  EXPECT_EQ(graph.nodes[1].id, 1);  // it keeps the id of the node that it replaces
}

TEST(CustomPass, NewNodesGetIdsOfTheirOwn) {
  register_joint_pass("more", [](const std::string& text) {
    std::string changed = text;
    changed.insert(changed.find("outputs"), "  %9: f32[4] = aten::neg.default(%3)\n");
    return changed.replace(changed.rfind("%3 result"), 2, "%9");
  });
  const Graph graph = run_joint_passes(graph_of(kTwice), with_custom("more"));
  EXPECT_EQ(graph.nodes.back().op.name(), "aten::neg.default");
  EXPECT_EQ(graph.nodes.back().id, 3);
}

TEST(CustomPass, AGraphThatIsNotValidIsRefusedInTheNameOfThePass) {
  const auto refused = [](const std::string& name, JointPass pass, const std::string& part) {
    register_joint_pass(name, std::move(pass));
    expect_error<GraphError>([&] { run_joint_passes(graph_of(kTwice), with_custom(name)); }, part);
    expect_error<GraphError>([&] { run_joint_passes(graph_of(kTwice), with_custom(name)); }, name);
  };
  refused(
      "no_graph", [](const std::string&) { return "nothing"; }, "antegrad.graph");
  refused(
      "undefined", [](std::string text) { return text.replace(text.rfind("%1, %2"), 6, "%1, %7"); },
      "%7");
  refused(
      "other_result",
      [](std::string text) { return text.replace(text.find("%0: f32[4]"), 10, "%0: f64[4]"); },
      "f64");
}

TEST(CustomPass, ANameThatWasNotRegisteredIsAnOptionError) {
  register_joint_pass("known", [](const std::string& text) { return text; });
  expect_error<OptionError>([] { check_custom_pass("unknown"); }, "known");
  EXPECT_NO_THROW(check_custom_pass(""));
  EXPECT_THROW(register_joint_pass("", [](const std::string& text) { return text; }), InputError);
  EXPECT_THROW(register_joint_pass("none", nullptr), InputError);
}

}  // namespace pass_list_test
}  // namespace antegrad::testing
