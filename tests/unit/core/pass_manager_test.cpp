#include "passes/pass_manager.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <antegrad/error.h>

#include "pass_graphs.h"
#include "passes/cse.h"
#include "passes/dce.h"
#include "support/folder.h"

namespace antegrad::testing {
namespace pass_manager_test {

Graph break_graph(Graph graph) {
  graph.outputs[0].value = 99;
  return graph;
}

TEST(PassManager, RecordsWhatAPassDid) {
  const auto log = std::make_shared<std::vector<PassRecord>>();
  PassContext context;
  context.log = log;
  context.verify = true;
  Graph graph =
      graph_of(kInputs + "  %5: f32[4, 2] = aten::neg.default(%0)\noutputs\n  none result\n");
  graph = run_pass("dce", dce, std::move(graph), context);
  ASSERT_EQ(log->size(), 1u);
  EXPECT_EQ((*log)[0].name, "dce");
  EXPECT_EQ((*log)[0].nodes_before, 1u);
  EXPECT_EQ((*log)[0].nodes_after, 0u);
  EXPECT_GE((*log)[0].seconds, 0);
}

TEST(PassManager, NamesThePassThatBrokeTheGraph) {
  const Graph graph = graph_of(kInputs + "outputs\n  %0 result is_input 0\n");
  PassContext context;
  EXPECT_NO_THROW(run_pass("breaker", break_graph, graph, context));
  context.verify = true;
  expect_error<InternalError>([&] { run_pass("breaker", break_graph, graph, context); },
                              "after the pass breaker");
}

TEST(PassManager, TheContextSeesAndMayChangeEachResult) {
  PassContext context;
  context.verify = true;
  std::string seen;
  context.after = [&](std::string_view pass, std::string_view part, Graph& graph) {
    seen += fmt::format("{}/{} ", pass, part);
    if (pass == "cse") graph = break_graph(std::move(graph));
  };
  const Graph graph = graph_of(kInputs + "outputs\n  %0 result is_input 0\n");
  EXPECT_NO_THROW(run_pass("dce", dce, graph, context));
  expect_error<InternalError>([&] { run_pass("cse", cse, graph, context); }, "after the pass cse");
  EXPECT_EQ(seen, "dce/ cse/ ");
}

TEST(PassManager, DumpsAreNumberedAndParseBack) {
  const TemporaryFolder folder;
  const auto log = std::make_shared<std::vector<PassRecord>>();
  PassContext context;
  context.log = log;
  context.dump_dir = folder / "inner";
  const Graph graph = graph_of(kInputs + "outputs\n  %0 result is_input 0\n");
  run_pass("cse", cse, run_pass("dce", dce, graph, context), context);
  std::ifstream file(folder / "inner/01-cse.agraph");
  std::stringstream text;
  text << file.rdbuf();
  expect_same(parse_graph(text.str()), graph);
  EXPECT_TRUE(std::filesystem::exists(folder / "inner/00-dce.agraph"));
}

TEST(PassManager, AFolderThatCannotBeWrittenIsAnOptionError) {
  const auto log = std::make_shared<std::vector<PassRecord>>();
  PassContext context;
  context.log = log;
  context.dump_dir = "/proc/no_such_folder";
  EXPECT_THROW(run_pass("dce", dce, Graph(), context), OptionError);
}

}  // namespace pass_manager_test
}  // namespace antegrad::testing
