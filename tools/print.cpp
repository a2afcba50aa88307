#include <iostream>
#include <memory>
#include <utility>

#include "command.h"
#include "graph/text.h"
#include "graph/verify.h"

namespace antegrad::cli {
namespace {

struct PrintOptions {
  std::string file;
  std::string part = "joint";
};

void print(const PrintOptions& options) {
  GraphFile file = read_graph_file(options.file);
  if (options.part == "joint") {
    std::cout << to_text(file);
    return;
  }
  verify(file.graph);
  const Partition partition = partition_of(std::move(file.graph));
  std::cout << to_text(options.part == "forward" ? partition.forward : partition.backward);
}

}  // namespace

void add_print(CLI::App& app) {
  CLI::App* command = app.add_subcommand("print", "Print a graph in its textual form");
  auto options = std::make_shared<PrintOptions>();
  command->footer(
      "Examples:\n  antegrad print step.agraph --part backward\n  ... | antegrad print -");
  add_graph_file(*command, options->file);
  command
      ->add_option("--part", options->part, "The graph itself, or a half of its default partition")
      ->check(CLI::IsMember({"joint", "forward", "backward"}))
      ->capture_default_str();
  command->callback([options] { print(*options); });
}

}  // namespace antegrad::cli
