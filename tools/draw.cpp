#include <cerrno>
#include <csignal>
#include <cstring>
#include <iostream>
#include <memory>
#include <utility>

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "command.h"
#include "explain/dot.h"
#include "planning.h"

extern char** environ;

namespace antegrad::cli {
namespace {

struct DrawOptions {
  PlanOptions plan;
  std::string output;
  bool partition = false;
};

/// Writes a text to the standard input of a program and waits for it. Returns its exit status.
int run_with_input(std::vector<std::string> command, const std::string& input) {
  int pipe_ends[2];
  if (::pipe(pipe_ends) != 0) throw UsageError(fmt::format("no pipe: {}", std::strerror(errno)));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, pipe_ends[0], STDIN_FILENO);
  posix_spawn_file_actions_addclose(&actions, pipe_ends[1]);
  std::vector<char*> arguments;
  for (std::string& word : command) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t child = 0;
  const int error =
      posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(pipe_ends[0]);
  if (error != 0) {
    ::close(pipe_ends[1]);
    throw UsageError(
        fmt::format("cannot run {}: {}; install graphviz, or write the .dot file and "
                    "render it elsewhere",
                    command[0], std::strerror(error)));
  }
  // If the program ends early, SIGPIPE must not end this one; the exit status reports the failure.
  std::signal(SIGPIPE, SIG_IGN);
  size_t written = 0;
  while (written < input.size()) {
    const ssize_t count = ::write(pipe_ends[1], input.data() + written, input.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) break;
    written += static_cast<size_t>(count);
  }
  ::close(pipe_ends[1]);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::string drawing_format(const std::string& output) {
  for (const char* format : {"dot", "svg", "png", "pdf"}) {
    if (output.ends_with(std::string(".") + format)) return format;
  }
  throw UsageError(
      fmt::format("expected a file that ends in .dot, .svg, .png or .pdf; found {}", output));
}

std::string dot_of(const DrawOptions& options) {
  if (!options.plan.budget.empty()) {
    const Planned planned(options.plan);
    return to_dot(planned.planner().partition(planned.point()));
  }
  Graph graph = read_valid_graph(options.plan.file);
  return options.partition ? to_dot(partition_of(std::move(graph))) : to_dot(graph);
}

void draw(const DrawOptions& options) {
  const std::string format = options.output.empty() ? "dot" : drawing_format(options.output);
  const std::string dot = dot_of(options);
  if (options.output.empty()) {
    std::cout << dot;
  } else if (format == "dot") {
    write_text(options.output, dot);
  } else {
    const int status = run_with_input({"dot", "-T" + format, "-o", options.output}, dot);
    if (status != 0) {
      throw UsageError(fmt::format("graphviz could not write {}: dot ended with status {}",
                                   options.output, status));
    }
  }
}

}  // namespace

void add_draw(CLI::App& app) {
  CLI::App* command = app.add_subcommand("draw", "Draw a graph with graphviz");
  auto options = std::make_shared<DrawOptions>();
  command->footer(
      "Examples:\n  antegrad draw step.agraph -o step.svg\n  antegrad draw step.agraph --partition "
      "| dot -Tpdf -o step.pdf\n  antegrad draw step.agraph --budget 50% -o step.svg");
  add_graph_file(*command, options->plan.file);
  command->add_option(
      "-o,--output", options->output,
      "Output file: .svg, .png and .pdf need graphviz; .dot does not. Without it DOT goes to "
      "standard output");
  command->add_flag("--partition", options->partition,
                    "Draw the forward and the backward of the default partition");
  add_budget_options(*command, options->plan);
  command->get_option("--budget")
      ->description(
          "Draw the forward and the backward of the plan for a memory budget: with B, KiB, MiB or "
          "GiB, "
          "or a percentage of the eager peak");
  command->get_option("--partition")->excludes("--budget");
  command->callback([options] { draw(*options); });
}

}  // namespace antegrad::cli
