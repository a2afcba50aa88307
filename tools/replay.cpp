#include "explain/replay.h"

#include <iostream>
#include <memory>

#include "command.h"

namespace antegrad::cli {

void add_replay(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("replay", "Repeat the decisions of a recorded graph and compare them");
  auto file = std::make_shared<std::string>();
  command->footer(
      "Exit code 1 if a decision differs, with one line per difference.\n\n"
      "Examples:\n  antegrad explain step.agraph --budget 200MiB --record decided.agraph\n"
      "  antegrad replay decided.agraph");
  add_graph_file(*command, *file);
  command->callback([file] {
    const Replayed replayed = replay(read_graph_file(*file));
    std::cout << to_text(replayed);
    if (!replayed.differences.empty()) throw CLI::RuntimeError(kInvalidGraph);
  });
}

}  // namespace antegrad::cli
