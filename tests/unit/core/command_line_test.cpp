#include <sys/wait.h>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "graphs.h"

namespace antegrad::testing {
namespace {

#ifdef ANTEGRAD_CLI

struct Outcome {
  int code = -1;
  std::string out;  // standard output and standard error
};

Outcome run(const std::string& arguments) {
  const std::string command = std::string(ANTEGRAD_CLI) + " " + arguments + " 2>&1";
  Outcome outcome;
  FILE* pipe = popen(command.c_str(), "r");
  std::array<char, 4096> buffer;
  while (const size_t count = fread(buffer.data(), 1, buffer.size(), pipe)) {
    outcome.out.append(buffer.data(), count);
  }
  outcome.code = WEXITSTATUS(pclose(pipe));
  return outcome;
}

const std::string kMlp = std::string(ANTEGRAD_TEST_DATA) + "/mlp.agraph";
const std::string kViews = std::string(ANTEGRAD_TEST_DATA) + "/views.agraph";

void expect(const Outcome& outcome, int code, const std::string& part) {
  EXPECT_EQ(outcome.code, code) << outcome.out;
  EXPECT_NE(outcome.out.find(part), std::string::npos) << outcome.out;
}

TEST(CommandLine, PrintsWhatParsesBack) {
  const Outcome outcome = run("print " + kMlp);
  EXPECT_EQ(outcome.code, 0);
  expect_same(parse_graph(outcome.out), graph_from_file("mlp.agraph"));
  expect(run("print --part backward - < " + kMlp), 0, "\"mlp.backward\"");
}

TEST(CommandLine, VerifyTellsValidFromInvalidAndMalformed) {
  expect(run("verify " + kMlp), 0, "mlp: valid");
  expect(run("verify /dev/null"), 1, "expected \"antegrad.graph\"");
}

TEST(CommandLine, AnInvalidGraphNamesTheRule) {
  const auto file = std::filesystem::temp_directory_path() / "antegrad_invalid.agraph";
  std::ofstream(file) << "antegrad.graph 1 \"x\"\ninputs\n  %0: f32[2] primal\nnodes\noutputs\n"
                         "  %0 result\n";
  for (const std::string command : {"verify ", "stats ", "draw "}) {
    expect(run(command + file.string()), 1, "breaks the rule");
  }
  std::filesystem::remove(file);
}

TEST(CommandLine, AHalfOfAPartitionCannotBeSplitAgain) {
  const std::string half = std::string(ANTEGRAD_CLI) + " print --part backward " + kMlp + " | ";
  const Outcome outcome = run("verify - < " + kMlp + " && " + half + ANTEGRAD_CLI + " stats -");
  expect(outcome, 0, "mlp.backward: ");
  expect(run("verify " + kMlp + " && " + half + ANTEGRAD_CLI + " draw --partition -"), 1,
         "expected a joint graph");
}

TEST(CommandLine, WrongUsageIsCodeTwoAndSaysWhatIsWrong) {
  expect(run(""), 2, "subcommand is required");
  expect(run("frobnicate"), 2, "");
  expect(run("print"), 2, "FILE is required");
  expect(run("print /no/such/file"), 2, "cannot read /no/such/file");
  expect(run("print /"), 2, "it is a folder");
  expect(run("draw " + kMlp + " -o picture.gif"), 2, "expected a file that ends in");
  expect(run("stats " + kViews), 2, "--symbol s0=8");
  expect(run("stats " + kViews + " --symbol s0"), 2, "NAME=NUMBER");
  expect(run("stats " + kViews + " --symbol nobody=1"), 2, "no symbol nobody");
}

TEST(CommandLine, StatsAreJsonOnRequest) {
  const Outcome outcome = run("stats --json " + kViews + " --symbol batch=8");
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  const nlohmann::json json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json["name"], "views");
  EXPECT_EQ(json["default_partition"]["saved"][0]["bytes"], 192);
}

TEST(CommandLine, StatsShowFusionGroupsOnRequest) {
  expect(run("stats " + kViews + " --symbol s0=8 --fusion"), 0, "fusion groups: ");
  const Outcome outcome = run("stats --json --fusion " + kMlp);
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  const nlohmann::json json = nlohmann::json::parse(outcome.out);
  EXPECT_GT(json["fusion"]["kernels"], 0);
  EXPECT_LE(json["fusion"]["bytes"], json["fusion"]["bytes_unfused"]);
}

TEST(CommandLine, PartitionTakesABudgetFromZeroToOne) {
  const std::string gpt = std::string(ANTEGRAD_TEST_DATA) + "/reference/gpt.agraph";
  expect(run("partition " + gpt + " --budget-ratio 0.25 --solver greedy"), 0, "memory_budget");
  expect(run("partition " + gpt + " --budget-ratio 0.25 --estimator testing"), 0, "memory_budget");
  expect(run("partition " + gpt + " --budget-ratio 1.5"), 2, "a memory budget from 0 to 1");
  expect(run("partition " + gpt + " --budget-ratio 0.5 --solver best"), 2, "--solver");
}

TEST(CommandLine, PartitionShowsDecisionsAndTheirRules) {
  const std::string llama = std::string(ANTEGRAD_TEST_DATA) + "/reference/llama.agraph";
  expect(run("partition " + llama), 0, "compute_intensive");
  expect(run("partition " + kViews + " --symbol s0=8"), 0, "default_partition: 192 B");
  const auto json = [&](const std::string& arguments) {
    const Outcome outcome = run("partition --json " + llama + arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.out;
    return nlohmann::json::parse(outcome.out);
  };
  const nlohmann::json usual = json("");
  EXPECT_LT(json(" --set aggressive_recomputation=true")["saved_bytes"], usual["saved_bytes"]);
  EXPECT_GT(json(" --as-is")["recomputed_nodes"], usual["recomputed_nodes"]);
}

TEST(CommandLine, PartitionTellsWhatItCannotDo) {
  expect(run("partition " + kMlp + " --set nothing=true"), 2,
         "one of ban_recompute_used_far_apart");
  expect(run("partition " + kMlp + " --set recompute_views=7"), 2, "true or false");
  const std::string half = std::string(ANTEGRAD_CLI) + " print --part forward " + kMlp + " | ";
  expect(run("verify " + kMlp + " && " + half + ANTEGRAD_CLI + " partition -"), 1,
         "expected a joint graph");
}

TEST(CommandLine, DrawsDotWithoutGraphviz) {
  expect(run("draw " + kMlp), 0, "digraph \"mlp\"");
  expect(run("draw --partition " + kMlp), 0, "saved");
}

TEST(CommandLine, ExplainsThatGraphvizIsMissing) {
  const std::string picture =
      (std::filesystem::temp_directory_path() / "antegrad_none.svg").string();
  const std::string path = getenv("PATH");
  setenv("PATH", "/nowhere", 1);
  const Outcome outcome = run("draw " + kMlp + " -o " + picture);
  setenv("PATH", path.c_str(), 1);
  expect(outcome, 2, "install graphviz");
}

TEST(CommandLine, HelpAndVersionAreNoErrors) {
  expect(run("--help"), 0, "Examples:");
  expect(run("draw --help"), 0, "--partition");
  expect(run("partition --help"), 0, "max_dist_from_bw=1000");
  expect(run("--version"), 0, "antegrad 0.");
}

#endif

}  // namespace
}  // namespace antegrad::testing
