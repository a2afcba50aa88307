#include "cache/bundle.h"

#include <algorithm>
#include <iostream>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "command.h"
#include "graph/byte_text.h"

namespace antegrad::cli {
namespace {

int64_t bytes_of(const Bundle& bundle) {
  int64_t bytes = 0;
  for (const auto& [code, library] : bundle.kernels.libraries) bytes += std::ssize(library);
  return bytes;
}

/// Facts that begin with this word.
int64_t count(const Bundle& bundle, std::string_view word) {
  return std::ranges::count_if(bundle.kernels.facts, [&](const std::string& fact) {
    return fact.starts_with(word) && fact.substr(word.size(), 1) == " ";
  });
}

std::string as_text(const Bundle& bundle) {
  return fmt::format(
      "plans          {}\n"
      "kernels        {}, {}\n"
      "compiled by    {}: {}\n"
      "compared on    {}\n"
      "comparisons    {} passed, {} failed\n"
      "measured       {} times\n",
      bundle.plans.size(), bundle.kernels.libraries.size(), bytes_text(bytes_of(bundle)),
      fmt::join(bundle.kernels.compiler.command, " "), bundle.kernels.compiler.version,
      bundle.kernels.made_for, count(bundle, "proven"), count(bundle, "disproven"),
      count(bundle, "times"));
}

std::string as_json(const Bundle& bundle) {
  nlohmann::json libraries = nlohmann::json::object();
  for (const auto& [code, library] : bundle.kernels.libraries) libraries[code] = library.size();
  const nlohmann::json all{{"compiler",
                            {{"command", bundle.kernels.compiler.command},
                             {"version", bundle.kernels.compiler.version}}},
                           {"made_for", bundle.kernels.made_for},
                           {"plans", bundle.plans.size()},
                           {"libraries", std::move(libraries)},
                           {"proven", count(bundle, "proven")},
                           {"disproven", count(bundle, "disproven")},
                           {"times", count(bundle, "times")}};
  return all.dump(2) + "\n";
}

}  // namespace

void add_bundle(CLI::App& app) {
  struct Arguments {
    std::string file;
    bool json = false;
  };
  CLI::App* command =
      app.add_subcommand("bundle", "Check a bundle of plans and kernels, and show what is in it");
  auto arguments = std::make_shared<Arguments>();
  command->add_option("FILE", arguments->file, "A bundle, as save_bundle() writes it")->required();
  command->add_flag("--json", arguments->json, "One JSON object instead of text");
  command->footer(
      "Exit code 1 if the file is damaged, or if others may write it.\n\n"
      "Examples:\n  antegrad bundle app.bundle\n"
      "  antegrad bundle app.bundle --json | jq .made_for");
  command->callback([arguments] {
    const Bundle bundle = read_bundle(arguments->file);
    std::cout << (arguments->json ? as_json(bundle) : as_text(bundle));
  });
}

}  // namespace antegrad::cli
