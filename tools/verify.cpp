#include "graph/verify.h"

#include <iostream>
#include <memory>

#include <fmt/format.h>

#include "command.h"

namespace antegrad::cli {

void add_verify(CLI::App& app) {
  CLI::App* command = app.add_subcommand("verify", "Check every invariant of a graph");
  auto file = std::make_shared<std::string>();
  command->footer("Examples:\n  antegrad verify step.agraph && echo valid");
  add_graph_file(*command, *file);
  command->callback([file] {
    const Graph graph = read_valid_graph(*file);
    std::cout << fmt::format("{}: valid, {} inputs, {} nodes, {} outputs\n", graph.name,
                             graph.inputs.size(), graph.nodes.size(), graph.outputs.size());
  });
}

}  // namespace antegrad::cli
