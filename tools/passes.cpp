#include "passes/pass_list.h"

#include <iostream>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "command.h"

namespace antegrad::cli {
namespace {

std::string passes_as_text() {
  std::string text;
  PassStage stage{};
  for (const PassRow& row : pass_rows()) {
    if (text.empty() || row.stage != stage) text += fmt::format("{}\n", name(row.stage));
    stage = row.stage;
    text += fmt::format("  {:<18} {}{}\n  {:<18}   {}\n", row.name, row.what,
                        row.optional ? " (optional)" : "", "", row.why);
  }
  return text + "\nOptional passes can be left out: Options::disabled_passes.\n";
}

std::string passes_as_json() {
  nlohmann::json rows = nlohmann::json::array();
  for (const PassRow& row : pass_rows()) {
    rows.push_back({{"name", row.name},
                    {"stage", name(row.stage)},
                    {"optional", row.optional},
                    {"what", row.what},
                    {"why", row.why}});
  }
  return rows.dump(2) + "\n";
}

}  // namespace

void add_passes(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "passes", "List the passes of a compilation, in order, with the reason for it");
  auto json = std::make_shared<bool>(false);
  command->footer("Examples:\n  antegrad passes\n  antegrad passes --json | jq '.[].name'");
  command->add_flag("--json", *json, "A list of objects");
  command->callback([json] { std::cout << (*json ? passes_as_json() : passes_as_text()); });
}

}  // namespace antegrad::cli
