#include "explain/stats.h"

#include <iostream>
#include <memory>

#include <nlohmann/json.hpp>

#include "command.h"

namespace antegrad::cli {
namespace {

struct StatsOptions {
  std::string file;
  bool json = false;
  bool fusion = false;
  std::vector<std::string> symbols;
};

void stats(const StatsOptions& options) {
  const Graph graph = read_valid_graph(options.file);
  const ByteRules rules = byte_rules(graph, options.symbols);
  GraphStats found = graph_stats(graph, rules);
  if (is_joint(graph)) found.partition = partition_stats(partition_of(graph), rules);
  if (options.fusion) found.fusion = fusion_stats(graph, rules.symbols);
  if (options.json) {
    std::cout << to_json(found).dump(2, ' ', false, nlohmann::json::error_handler_t::replace)
              << "\n";
  } else {
    std::cout << to_text(found);
  }
}

}  // namespace

void add_stats(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "stats", "Count operators and bytes, and what the default partition saves and why");
  auto options = std::make_shared<StatsOptions>();
  command->footer(
      "Examples:\n  antegrad stats step.agraph --json\n  antegrad stats step.agraph --symbol s0=32 "
      "--symbol s1=128");
  add_graph_file(*command, options->file);
  command->add_flag("--json", options->json, "One JSON object instead of tables");
  command->add_flag("--fusion", options->fusion,
                    "Also which nodes would form one kernel, and what that would save");
  add_symbols(*command, options->symbols);
  command->callback([options] { stats(*options); });
}

}  // namespace antegrad::cli
