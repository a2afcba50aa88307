#include "cache/bundle.h"

#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

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

std::vector<std::string> keys_of(const Bundle& bundle) {
  std::vector<std::string> keys;
  for (const KeptPlan& kept : bundle.plans) keys.push_back(kept.key);
  return keys;
}

std::vector<std::string> codes_of(const Bundle& bundle) {
  std::vector<std::string> codes;
  for (const auto& [code, library] : bundle.kernels.libraries) codes.push_back(code);
  return codes;
}

/// What one bundle has and the other one lacks: "-" for the first one, "+" for the other one.
std::string difference(const Bundle& from, const Bundle& to) {
  std::string text;
  const auto compare = [&](const char* what, const std::string& a, const std::string& b) {
    if (a != b) text += fmt::format("- {} {}\n+ {} {}\n", what, a, what, b);
  };
  const auto compiler = [](const Bundle& bundle) {
    return fmt::format("{}: {}", fmt::join(bundle.kernels.compiler.command, " "),
                       bundle.kernels.compiler.version);
  };
  compare("compiled by", compiler(from), compiler(to));
  compare("compared on", from.kernels.made_for, to.kernels.made_for);
  const auto lacking = [&](char sign, const char* what, const std::vector<std::string>& has,
                           const std::vector<std::string>& other) {
    for (const std::string& one : has) {
      if (std::ranges::find(other, one) != other.end()) continue;
      text += fmt::format("{} {} {}\n", sign, what, one);
    }
  };
  lacking('-', "kernels", codes_of(from), codes_of(to));
  lacking('+', "kernels", codes_of(to), codes_of(from));
  lacking('-', "plan", keys_of(from), keys_of(to));
  lacking('+', "plan", keys_of(to), keys_of(from));
  for (const KeptPlan& kept : from.plans) {
    const auto other = std::ranges::find(to.plans, kept.key, &KeptPlan::key);
    if (other == to.plans.end() || other->plan == kept.plan) continue;
    text += fmt::format("another plan of\n{}", kept.key);
  }
  return text.empty() ? "no difference in what they are for\n" : text;
}

}  // namespace

void add_bundle(CLI::App& app) {
  struct Arguments {
    std::string file, other;
    bool json = false;
  };
  CLI::App* command =
      app.add_subcommand("bundle", "Check a bundle of plans and kernels, and show what is in it");
  auto arguments = std::make_shared<Arguments>();
  command->add_option("FILE", arguments->file, "A bundle, as save_bundle() writes it")->required();
  command->add_flag("--json", arguments->json, "One JSON object instead of text");
  command->add_option("--diff", arguments->other, "Show what another bundle has, or lacks")
      ->type_name("OTHER")
      ->excludes(command->get_option("--json"));
  command->footer(
      "Exit code 1 if the file is damaged, or if others may write it.\n\n"
      "Examples:\n  antegrad bundle app.bundle\n"
      "  antegrad bundle app.bundle --diff new.bundle\n"
      "  antegrad bundle app.bundle --json | jq .made_for");
  command->callback([arguments] {
    const Bundle bundle = read_bundle(arguments->file);
    if (!arguments->other.empty()) {
      std::cout << difference(bundle, read_bundle(arguments->other));
      return;
    }
    std::cout << (arguments->json ? as_json(bundle) : as_text(bundle));
  });
}

}  // namespace antegrad::cli
