#include <sys/wait.h>
#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cache/bundle.h"
#include "cache/plan_cache.h"
#include "explain/record.h"
#include "explain/replay.h"
#include "graph/graph_file.h"
#include "graphs.h"
#include "options/reference.h"
#include "support/folder.h"

namespace antegrad::testing {
namespace command_line_test {

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

TEST(CommandLine, BundleShowsWhatIsInIt) {
  const TemporaryFolder folder;
  const std::string file = folder / "kernels.bundle";
  Bundle bundle;
  bundle.kernels = {.compiler = {.command = {"cc"}, .version = "cc 12"},
                    .made_for = "a CPU",
                    .libraries = {{"00aa", std::string(2048, 'x')}, {"00bb", "y"}},
                    .facts = {"proven 01", "proven 02", "disproven 03", "times 01 2 3"}};
  bundle.plans = {{"antegrad plan 1\n", "{}"}};
  write_bundle(bundle, file);
  expect(run("bundle " + file), 0, "plans          1\n");
  expect(run("bundle " + file), 0, "kernels        2, 2049 B");
  expect(run("bundle " + file), 0, "2 passed, 1 failed");
  auto other = bundle;
  other.kernels.made_for = "another CPU";
  other.kernels.libraries.erase(other.kernels.libraries.begin());
  other.plans[0].plan = "{\"saved\": []}";
  other.plans.push_back({"antegrad plan 1\ngraph 12\n", "{}"});
  write_bundle(other, folder / "other.bundle");
  const auto compare = "bundle " + file + " --diff ";
  expect(run(compare + file), 0, "no difference");
  expect(run(compare + (folder / "other.bundle")), 0, "+ compared on another CPU\n- kernels ");
  expect(run(compare + (folder / "other.bundle")), 0, "+ plan antegrad plan 1\ngraph 12\n");
  expect(run(compare + (folder / "other.bundle")), 0, "another plan of\nantegrad plan 1\n");
  const auto json = nlohmann::json::parse(run("bundle --json " + file).out);
  EXPECT_EQ(json.at("libraries").at("00aa"), 2048);
  EXPECT_EQ(json.at("times"), 1);
  std::ofstream(file, std::ios::app) << "z";
  expect(run("bundle " + file), 1, "damaged");
  expect(run("bundle /none"), 1, "No such file");
}

TEST(CommandLine, CacheShowsChecksAndRemovesWhatIsKept) {
  const TemporaryFolder folder;
  const std::string cache = "cache --dir " + folder.path() + " ";
  expect(run(cache + "stats"), 0, "plan         0 entries");
  EXPECT_TRUE(folder.is_empty()) << "looking makes nothing";
  const std::string key = std::string(kPlanRecord) + "graph 12\n";
  const std::string plans = folder_of_plans(folder.path());
  ASSERT_EQ(PlanCache().keep(key, "{\"saved\": []}", plans), "");
  const std::string name = name_of_plan(key);
  expect(run(cache + "ls"), 0, "of the graph 12");
  const auto listed = nlohmann::json::parse(run(cache + "ls --json").out);
  EXPECT_EQ(listed.at(0).at("name"), name);
  expect(run(cache + "show " + name.substr(0, 8)), 0, "graph 12\n{\"saved\": []}");
  expect(run(cache + "show none"), 2, "no entry");
  expect(run(cache + "verify"), 0, "1 entries, 0 damaged");
  EXPECT_EQ(nlohmann::json::parse(run(cache + "stats --json").out).at("plan").at("entries"), 1);
  std::ofstream(plans + "/" + name + ".plan", std::ios::app) << "z";
  expect(run(cache + "verify"), 1, "not what its record says");
  expect(run(cache + "ls"), 0, "damaged");
  expect(run(cache + "clear --kind kernels"), 0, "removed 0 entries");
  expect(run(cache + "clear"), 0, "removed 1 entries");
  expect(run(cache + "clear --kind other"), 2, "--kind");
}

TEST(CommandLine, VerifyTellsValidFromInvalidAndMalformed) {
  expect(run("verify " + kMlp), 0, "mlp: valid");
  expect(run("verify /dev/null"), 1, "expected \"antegrad.graph\"");
}

TEST(CommandLine, AnInvalidGraphNamesTheRule) {
  const TemporaryFolder folder;
  const std::string file = folder / "invalid.agraph";
  std::ofstream(file) << "antegrad.graph 1 \"x\"\ninputs\n  %0: f32[2] primal\nnodes\noutputs\n"
                         "  %0 result\n";
  for (const std::string command : {"verify ", "stats ", "draw "}) {
    expect(run(command + file), 1, "breaks the rule");
  }
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
  expect(run("partition " + gpt + " --budget-ratio 1.5"), 2, "a number from 0 to 1");
  expect(run("partition " + gpt + " --budget-ratio 0.5 --estimator profile"), 0, "memory_budget");
  expect(run("partition " + gpt + " --curve"), 0, "of range");
  expect(run("partition " + gpt + " --curve --json"), 0, "\"saved_bytes\"");
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
  expect(run("partition " + kMlp + " --set recompute_view=true"), 2,
         "did you mean recompute_views?");
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
  const TemporaryFolder folder;
  const std::string path = getenv("PATH");
  setenv("PATH", "/nowhere", 1);
  const Outcome outcome = run("draw " + kMlp + " -o " + folder / "none.svg");
  setenv("PATH", path.c_str(), 1);
  expect(outcome, 2, "install graphviz");
}

const std::string kLlama = std::string(ANTEGRAD_TEST_DATA) + "/reference/llama.agraph";

/// A file in a temporary folder.
struct OutputFile {
  explicit OutputFile(const std::string& name) : path(folder / name) {}
  std::string text() const {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  const TemporaryFolder folder;
  const std::string path;
};

TEST(CommandLine, ExplainShowsThePlanForABudget) {
  const Outcome outcome = run("explain --budget 60% " + kLlama);
  expect(outcome, 0, "llama: a plan for 1062 KiB (quick search, times of a cpu)");
  expect(outcome, 0, "recomputed_by_plan");
  expect(outcome, 0, "smaller ones of");
  expect(outcome, 0, "The next smaller plan peaks at");
  EXPECT_EQ(outcome.out.find('\r'), std::string::npos);  // no progress without a terminal
  const Outcome all = run("explain --all --machine gpu --effort quick --budget 1MiB " + kLlama);
  expect(all, 0, "llama: a plan for 1024 KiB (quick search, times of a gpu)");
  EXPECT_EQ(all.out.find("smaller ones of"), std::string::npos);
  expect(run("explain " + kLlama), 0, "llama: the plan without a budget");
  expect(run("explain --as-is " + kMlp), 0, "as_written");
  expect(run("explain --symbol s0=8 " + kViews), 0, "views: the plan without a budget");
}

TEST(CommandLine, ExplainIsJsonOnRequest) {
  const Outcome outcome = run("explain --json --budget 1048576 " + kLlama);
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  const nlohmann::json json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json["budget_bytes"], 1048576);
  EXPECT_LE(json["peak_bytes"], 1048576);
  EXPECT_GT(json["values"].size(), 30u);
  EXPECT_GT(json["recompute_us"], 0);
}

TEST(CommandLine, ExplainsKernels) {
  const std::string kernels = "explain --kernels " + kMlp + " --capability avx2 --threads 3";
  Outcome outcome = run(kernels);
  expect(outcome, 0, "lowering=exact for avx2 on 3 threads, oneDNN ");
  for (const char* part :
       {"mlp.forward: generated kernels run 1 times", "mlp.backward: generated kernels run 2 times",
        "pow.Tensor_Scalar, sum.default", "no neighbour to compute it with"}) {
    expect(outcome, 0, part);
  }
  outcome = run(kernels + " --json");
  const nlohmann::json json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json["graphs"].size(), 2u);
  const std::string name = json["graphs"][0]["kernels"][0]["name"];
  outcome = run(kernels + " --source ir --kernel " + name);
  expect(outcome, 0, "antegrad.kernel 1 " + name);
  EXPECT_EQ(outcome.out.find("antegrad.kernel 1"), outcome.out.rfind("antegrad.kernel 1"));
  expect(run(kernels + " --source c"), 0, "void " + name + "(char* const* buffers");
  expect(run(kernels + " --source c --kernel x"), 1, "expected a generated kernel");
}

TEST(CommandLine, ExplainsKernelsOfHalvesOfSeveralFilesAndOfPlans) {
  const TemporaryFolder folder;
  const std::string half = folder / "half.agraph";
  const std::string record = folder / "decided.agraph";
  EXPECT_EQ(run("print --part backward " + kMlp + " > " + half).code, 0);
  const Outcome two = run("explain --kernels " + half + " " + kMlp);
  expect(two, 0, "mlp.forward: ");
  EXPECT_NE(two.out.find("mlp.backward: "), two.out.rfind("mlp.backward: ")) << two.out;
  const std::string plan = "explain " + kMlp + " --budget 100%";
  EXPECT_EQ(run(plan + " --record " + record).code, 0);
  const Outcome planned = run(plan + " --kernels");
  EXPECT_EQ(planned.code, 0);
  EXPECT_EQ(planned.out, run("explain --kernels " + record).out);
  expect(run("explain " + kMlp + " " + half), 2, "one FILE");
  expect(run("explain " + kMlp + " --source c"), 2, "--kernels");
  expect(run("explain --kernels --json --source c " + kMlp), 2, "not both");
}

TEST(CommandLine, BudgetsThatCannotBeAreTold) {
  expect(run("explain --budget 10KiB " + kLlama), 1, "a memory budget of at least ");
  expect(run("timeline -o x.svg --budget 1% " + kLlama), 1, "a memory budget of at least ");
  for (const std::string size : {"much", "0", "-5MiB", "12XiB", "%", "-3%", "0%", "5%%"}) {
    expect(run("explain --budget=" + size + " " + kMlp), 2, "expected a budget such as 200MiB");
  }
  expect(run("explain --effort huge " + kMlp), 2, "--effort");
  expect(run("explain --machine abacus " + kMlp), 2, "--machine");
  expect(run("explain /no/such/file"), 2, "cannot read /no/such/file");
  expect(run("explain " + kViews), 2, "--symbol s0=8");
  expect(run("explain /dev/null"), 1, "expected \"antegrad.graph\"");
  const std::string half = std::string(ANTEGRAD_CLI) + " print --part forward " + kMlp + " | ";
  for (const std::string command : {"explain -", "pareto -", "timeline - -o x.svg"}) {
    expect(run("verify " + kMlp + " && " + half + ANTEGRAD_CLI + " " + command), 1,
           "expected a joint graph");
  }
}

// Plans may pack as the record in the file says.
TEST(CommandLine, ExplainsWhatIsPacked) {
  Graph graph = graph_from_file("reference/llama.agraph");
  number_nodes(graph);
  PartitionChoice choice;
  choice.partitioner = Partitioner::budget;
  choice.budget.bytes = 1 << 20;
  choice.packings.ways = {"quarter"};
  for (const Node& node : graph.nodes) {
    for (const ValueId id : node.outputs) {
      if (id == kNoValue || !graph.owns_storage(id)) continue;
      choice.packings.entries.push_back(
          {id, 0, {storage_bytes(graph.value(id).meta, {}) / 4, 1e-9, 0, 0}});
    }
  }
  const OutputFile file("packed.agraph");
  std::ofstream(file.path) << to_text(
      GraphFile{graph, to_text(make_record(partition_by(graph, choice), choice))});
  const Outcome explained = run("explain --budget 1MiB " + file.path);
  for (const char* part : {"packing by quarter", "packed (quarter)", "packed_by_plan"}) {
    expect(explained, 0, part);
  }
  expect(run("pareto --budget 1MiB " + file.path), 0, "chosen");
  expect(run("replay " + file.path), 0, "same: ");
  const OutputFile again("again.agraph");
  expect(run("explain --budget 1MiB --record " + again.path + " " + file.path), 0, "packed");
  expect(run("replay " + again.path), 0, "same: ");
}

TEST(CommandLine, WhatWasMeasuredCountsForTheSizesOfTheRecord) {
  Graph graph = graph_from_file("views.agraph");
  number_nodes(graph);
  PartitionChoice choice;
  choice.symbols = {8};
  choice.measured.scratch.assign(graph.nodes.size(), 1 << 20);
  const OutputFile file("measured.agraph");
  std::ofstream(file.path) << to_text(
      GraphFile{graph, to_text(make_record(partition_by(graph, choice), choice))});
  const auto peak = [&](const std::string& options) {
    return nlohmann::json::parse(run("explain --json " + options + file.path).out).at("peak_bytes");
  };
  EXPECT_GT(peak(""), 1 << 20);
  EXPECT_EQ(peak("--symbol s0=8 "), peak(""));
  EXPECT_LT(peak("--symbol s0=16 "), 1 << 20);
}

TEST(CommandLine, ParetoIsATableOrAFile) {
  const Outcome table = run("pareto --budget 60% " + kLlama);
  for (const char* part : {"eager", "smallest known", "minimum cut", "chosen", "of step"}) {
    expect(table, 0, part);
  }
  const OutputFile svg("pareto.svg");
  expect(run("pareto " + kLlama + " -o " + svg.path), 0, "");
  EXPECT_NE(svg.text().find("fastest plans"), std::string::npos);
  const OutputFile json("pareto.json");
  expect(run("pareto " + kLlama + " -o " + json.path), 0, "");
  EXPECT_GT(nlohmann::json::parse(json.text())["points"].size(), 20u);
  const OutputFile csv("pareto.csv");
  expect(run("pareto " + kLlama + " -o " + csv.path), 0, "");
  EXPECT_EQ(csv.text().find("peak_bytes,recompute_us,share\n"), 0u);
  expect(run("pareto " + kLlama + " -o points.txt"), 2, "ends in .svg, .json or .csv");
  expect(run("pareto " + kMlp + " -o /no/such/folder/p.svg"), 2, "cannot write");
}

TEST(CommandLine, TraceWritesOneStepForPerfetto) {
  const OutputFile file("trace.json");
  const std::string to = " -o " + file.path;
  const auto slices = [&](const std::string& arguments) {
    expect(run("trace " + arguments + kLlama + to), 0, "");
    const auto trace = nlohmann::json::parse(file.text());
    const auto& events = trace["traceEvents"];
    return std::ranges::count_if(events, [](const auto& event) { return event["ph"] == "X"; });
  };
  const auto as_written = slices("");
  EXPECT_GT(as_written, 100);
  EXPECT_GT(slices("--partition min_cut "), as_written);
  EXPECT_GT(slices("--budget 1MiB "), as_written);
  expect(run("trace " + kLlama + " -o trace.txt"), 2, "ends in .json");
}

TEST(CommandLine, TimelineDrawsPartitionsOverOneAnother) {
  const OutputFile svg("timeline.svg");
  const std::string to = " -o " + svg.path;
  expect(run("timeline " + kLlama + to), 0, "");
  EXPECT_NE(svg.text().find("as written, peak 1771 KiB"), std::string::npos);
  expect(run("timeline --partition min_cut " + kLlama + to), 0, "");
  EXPECT_NE(svg.text().find("minimum cut, peak 1449 KiB"), std::string::npos);
  expect(run("timeline --budget 1MiB " + kLlama + to), 0, "");
  for (const char* part :
       {"without a budget, peak", "planned, peak", "budget 1024 KiB", "recomputed"}) {
    EXPECT_NE(svg.text().find(part), std::string::npos) << part;
  }
  expect(run("timeline --budget 1MiB --partition min_cut " + kLlama + to), 2, "excludes");
  expect(run("timeline --partition nobody " + kLlama + to), 2, "--partition");
  expect(run("timeline " + kLlama), 2, "--output is required");
  expect(run("timeline " + kLlama + " -o picture.png"), 2, "ends in .svg");
}

TEST(CommandLine, DrawsThePlanForABudget) {
  const Outcome outcome = run("draw --budget 1MiB " + kLlama);
  expect(outcome, 0, "cluster_backward");
  expect(outcome, 0, "saved");
  expect(run("draw --budget 1B " + kLlama), 1, "a memory budget of at least ");
  expect(run("draw --budget 1MiB --partition " + kLlama), 2, "excludes");
}

TEST(CommandLine, ReplayTellsWhetherDecisionsAreTheSame) {
  const OutputFile file("decided.agraph");
  expect(run("explain --budget 60% " + kLlama + " --record " + file.path), 0, "a plan for");
  expect(run("replay " + file.path), 0, "same: ");
  expect(run("verify " + file.path), 0, "llama: valid");
  expect(run("print " + file.path), 0, "\nrecord\n{\n  \"antegrad\": ");
  std::string text = file.text();
  const size_t peak = text.find("\"peak_bytes\": ");
  ASSERT_NE(peak, std::string::npos);
  text.insert(peak + 14, "1");
  std::ofstream(file.path) << text;
  expect(run("replay " + file.path), 1, "1 difference in llama:\n  the peak was 1");
  expect(run("replay " + kLlama), 1, "a graph file that ends with a record");
  expect(run("replay /no/such/file"), 2, "cannot read");
  expect(run("explain --record x.agraph " + kLlama), 2, "--record needs a --budget");
}

TEST(CommandLine, ImportedGraphsCanBePlanned) {
  const std::string exported = std::string(ANTEGRAD_TEST_DATA) + "/joint/mlp2_small.json.gz";
  const OutputFile file("imported.agraph");
  expect(run("import " + exported + " -o " + file.path), 0, " nodes, ");
  expect(run("verify " + file.path), 0, ": valid");
  expect(run("explain --as-is --budget 90% " + file.path), 0, ": a plan for ");
  expect(run("import " + exported), 0, "antegrad.graph 1 ");
  expect(run("import /no/such/file"), 2, "/no/such/file");
  expect(run("import " + kMlp), 1, "expected");
  expect(run("import " + exported + " -o /no/such/folder/x"), 2, "cannot write");
}

TEST(CommandLine, OptionsAreListedAndExplained) {
  expect(run("options"), 0, "off, pow2, every");
  expect(run("options memory_budget"), 0, "environment  ANTEGRAD_MEMORY_BUDGET");
  expect(run("options --markdown"), 0, "| `max_programs` | integer from 1 | 256 |");
  expect(run("options --reference"), 0, "| `debug_assert` | `verify_graphs` |");
  const auto list = nlohmann::json::parse(run("options --json").out);
  EXPECT_EQ(list.at(0).at("name"), "name");
  EXPECT_EQ(list.at(1).at("default"), 256);
  expect(run("options max_program"), 2, "did you mean max_programs?");
  expect(run("options debug_assert"), 2, "here it is verify_graphs");
  expect(run("options --json --markdown"), 2, "");
}

// Each cell is a command with its flags: "antegrad pareto -o FILE", "antegrad partition, antegrad
// explain".
TEST(CommandLine, HasWhatStandsForOptionsOfTheReference) {
  for (const ReferenceOption& option : reference_options()) {
    if (!option.here.starts_with("antegrad ")) continue;
    std::string words(option.here);
    std::replace(words.begin(), words.end(), ',', ' ');
    std::istringstream in(words);
    Outcome help;
    for (std::string word; in >> word;) {
      if (word == "antegrad") {
        in >> word;
        help = run(word + " --help");
        EXPECT_EQ(help.code, 0) << option.name;
      } else if (word.starts_with("-")) {
        EXPECT_NE(help.out.find(word), std::string::npos) << option.name << ": " << word;
      }
    }
  }
}

TEST(CommandLine, HelpAndVersionAreNoErrors) {
  for (const std::string command :
       {"explain", "pareto", "timeline", "replay", "import", "options"}) {
    expect(run(command + " --help"), 0, "Examples:\n  antegrad ");
  }
  expect(run("--help"), 0, "Examples:");
  expect(run("draw --help"), 0, "--partition");
  expect(run("partition --help"), 0, "max_dist_from_bw=1000");
  expect(run("--version"), 0, "antegrad 0.");
}

#endif

}  // namespace command_line_test
}  // namespace antegrad::testing
