// The program behind `antegrad minify` (docs/minify.md).

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <iostream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <antegrad/config.h>
#include <antegrad/error.h>

#include "command.h"
#include "graph/text.h"
#include "minify/minify.h"
#include "options/settings.h"
#include "passes/custom_pass.h"

namespace antegrad::cli {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

struct Arguments {
  std::vector<std::string> words;  // FILE, or a command
  std::string out, stage;
  std::vector<std::string> settings, libraries;
  uint64_t seed = 0;
  double max_seconds = 600;
  bool check = false;
};

constexpr const char* kFooter =
    R"(FILE is a graph as captured: DIR/00-capture.agraph of a run with ANTEGRAD_DUMP=DIR, or what
save_graph() wrote. A COMMAND runs with its graphs recorded in a folder, and the first that fails is
shrunk. `python -m antegrad minify SCRIPT.py` is short for minify -- python SCRIPT.py.

Exit codes: 0 nothing fails; 1 something fails (the small graph and a script are written);
2 wrong usage.

Examples:
  antegrad minify step/00-capture.agraph
  antegrad minify step/00-capture.agraph --stage finish --set partition=min_cut -o small.agraph
  antegrad minify -- ./train --steps 1
  sh step/00-capture.small.sh                  does it still fail?)";

void add_arguments(CLI::App& app, Arguments& arguments) {
  app.add_option("FILE", arguments.words,
                 "A captured graph (.agraph); - reads standard input. Or a command, after --")
      ->required();
  app.add_option("-o,--out", arguments.out,
                 "The small graph; by default FILE.small.agraph. An earlier one is continued")
      ->type_name("GRAPH");
  std::vector<std::string> names;
  for (const auto& stage : minify::stages()) names.emplace_back(stage.name);
  app.add_option("--stage", arguments.stage,
                 fmt::format("Only this stage: {}", fmt::join(names, ", ")))
      ->type_name("NAME");
  app.add_option(
         "--set", arguments.settings,
         "An option of antegrad::compile, repeatable; options.json beside FILE is read first")
      ->type_name("NAME=VALUE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--load", arguments.libraries, "A library with custom operators, repeatable")
      ->type_name("LIBRARY")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--seed", arguments.seed, "Seed of the made-up inputs")->capture_default_str();
  app.add_option("--max-seconds", arguments.max_seconds, "When to stop with the smallest so far")
      ->capture_default_str();
  app.add_flag("--check", arguments.check, "Only say what fails; shrink nothing");
}

minify::Subject read_subject(const std::string& file, const Arguments& arguments) {
  minify::Subject subject;
  subject.graph = read_graph(file);
  number_nodes(subject.graph);
  subject.seed = arguments.seed;
  const auto options = fs::path(file).replace_filename("options.json");
  if (file != "-" && fs::exists(options)) subject.options = load_options(options);
  for (const auto& setting : arguments.settings) {
    const auto [name, value] = name_and_value(setting);
    set_option(subject.options, name, value);
  }
  auto& custom = subject.options.joint_custom_pass;
  const auto known = custom_passes();
  if (!custom.empty() && std::ranges::find(known, custom) == known.end()) {
    std::cerr << fmt::format("the joint_custom_pass {} is of another program and left out\n",
                             custom);
    custom.clear();
  }
  return subject;
}

std::string place_of(const minify::Failure& failure) {
  return failure.pass.empty() || failure.pass == failure.stage
             ? failure.stage
             : fmt::format("{}, pass {}", failure.stage, failure.pass);
}

// Says which graph is being looked at, and whether it can be run.
std::optional<minify::Failure> look(const std::string& file, const minify::Subject& subject,
                                    const std::string& stage) {
  std::cerr << fmt::format("{}: {} nodes\n", file, subject.graph.nodes.size());
  auto failure = minify::first_failure(subject, stage);
  if (!failure || !failure->runs) {
    const auto why = minify::not_runnable(subject);
    if (!why.empty()) {
      std::cerr << "it does not run on made-up inputs, so only errors are looked for: " << why
                << "\n";
    }
  }
  if (failure) std::cerr << fmt::format("fails in {}: {}\n", place_of(*failure), failure->what);
  return failure;
}

// An earlier, smaller graph of the same failure.
void resume(const std::string& out, const minify::Failure& failure, minify::Subject& subject) {
  if (!fs::exists(out)) return;
  auto earlier = subject;
  earlier.graph = read_graph(out);
  const auto found = minify::first_failure(earlier, failure.stage, &failure.settings);
  if (!found || !found->is_like(failure)) return;
  std::cerr << fmt::format("continues with {}\n", out);
  subject = std::move(earlier);
}

void shrink_file(const std::string& file, minify::Subject subject, const minify::Failure& failure,
                 const Arguments& arguments) {
  const auto stem =
      file == "-" ? std::string("minify") : fs::path(file).replace_extension().string();
  const auto out = arguments.out.empty() ? stem + ".small.agraph" : arguments.out;
  const auto nodes = subject.graph.nodes.size();
  resume(out, failure, subject);
  const auto start = Clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  minify::Watcher watcher;
  watcher.found = [&](const Graph& graph) {
    write_text(out, to_text(graph));
    std::cerr << fmt::format("{:8.1f} s {:6} nodes {:4} inputs {:4} outputs\n", seconds(),
                             graph.nodes.size(), graph.inputs.size(), graph.outputs.size());
  };
  watcher.stop = [&] { return seconds() > arguments.max_seconds; };
  const auto minified = minify::minify(std::move(subject), failure, watcher);
  write_text(out, to_text(minified.subject.graph));
  const auto script = fs::path(out).replace_extension("sh").string();
  write_text(script, minify::reproducing_script(minified));
  const auto row = [](std::string_view name, const std::string& text) {
    std::cout << fmt::format("{:<12} {}\n", name, text);
  };
  const auto& found = minified.failure;
  row("nodes", fmt::format("{} of {}", minified.subject.graph.nodes.size(), nodes));
  row("fails in", place_of(found));
  if (!found.settings.empty()) row("with", fmt::format("{}", fmt::join(found.settings, " ")));
  if (!minified.needed_passes.empty()) {
    row("not without", fmt::format("{}", fmt::join(minified.needed_passes, ", ")));
  }
  row("says", found.what);
  row("graph", out);
  row("reproduce", "sh " + script);
  if (watcher.stop()) row("stopped", "run the same command again to continue");
  std::cout << "\n" << to_text(minified.subject.graph);
}

int minify_file(const std::string& file, const Arguments& arguments) {
  auto subject = read_subject(file, arguments);
  const auto failure = look(file, subject, arguments.stage);
  if (!failure) {
    std::cout << fmt::format("{}: nothing fails in {}\n", file,
                             arguments.stage.empty()
                                 ? fmt::format("the {} stages", minify::stages().size())
                                 : "the stage " + arguments.stage);
    return kOk;
  }
  if (!arguments.check) shrink_file(file, std::move(subject), *failure, arguments);
  return kInvalidGraph;
}

// Runs the command with its graphs recorded in `folder`. Whatever it returns, they are looked at.
void record(const std::vector<std::string>& words, const fs::path& folder) {
  std::vector<std::string> copies = words;
  std::vector<char*> arguments;
  for (auto& word : copies) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  setenv("ANTEGRAD_DUMP", folder.c_str(), 1);
  const auto child = fork();
  if (child == 0) {
    execvp(arguments[0], arguments.data());
    std::cerr << fmt::format("antegrad: cannot run {}: {}\n", words[0], std::strerror(errno));
    _exit(127);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) < 0) {
    throw UsageError(fmt::format("cannot run {}: {}", words[0], std::strerror(errno)));
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127) throw UsageError("nothing was run");
  if (status != 0) std::cerr << "the program failed; its graphs are looked at all the same\n";
}

int minify_command(const Arguments& arguments) {
  auto pattern = (fs::temp_directory_path() / "antegrad-minify-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) throw UsageError("cannot make a folder " + pattern);
  const fs::path folder = pattern;
  std::cerr << fmt::format("records graphs in {}\n", folder.string());
  record(arguments.words, folder);
  std::vector<fs::path> graphs;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().filename() == "00-capture.agraph") graphs.push_back(entry.path());
  }
  std::ranges::sort(graphs, {}, [](const fs::path& file) { return fs::last_write_time(file); });
  if (graphs.empty()) {
    throw UsageError("the program compiled nothing with antegrad, or chose a dump_dir of its own");
  }
  for (const auto& graph : graphs) {
    const int code = minify_file(graph, arguments);
    if (code != kOk) return code;
  }
  return kOk;
}

int run(int argc, char** argv) {
  CLI::App app{"Shrinks a graph or a program that fails to a minimal graph that fails alike."};
  app.name("antegrad minify");
  app.footer(kFooter);
  Arguments arguments;
  add_arguments(app, arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kOk : kUsage;
  }
  for (const auto& library : arguments.libraries) {
    if (dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) throw UsageError(dlerror());
  }
  const auto& file = arguments.words.front();
  if (arguments.words.size() == 1 && file.ends_with(".py")) {
    throw UsageError("a Python script is run by python -m antegrad minify " + file);
  }
  const bool graph = file == "-" || file.ends_with(".agraph");
  return graph ? minify_file(file, arguments) : minify_command(arguments);
}

}  // namespace
}  // namespace antegrad::cli

int main(int argc, char** argv) {
  using namespace antegrad::cli;
  try {
    return run(argc, argv);
  } catch (const UsageError& error) {
    std::cerr << "antegrad: " << error.what() << "\n";
    return kUsage;
  } catch (const antegrad::OptionError& error) {
    std::cerr << "antegrad: " << error.what() << "\n";
    return kUsage;
  } catch (const antegrad::Error& error) {
    std::cerr << "antegrad: " << error.what() << "\n";
    return kInvalidGraph;
  } catch (const std::exception& error) {
    std::cerr << "antegrad: " << error.what() << "\n";
    return kUsage;
  }
}
