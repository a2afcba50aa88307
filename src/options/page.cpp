#include "options/page.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "options/json.h"

namespace antegrad {
namespace {

// Indexed by OptionGroup.
constexpr std::array<std::string_view, 5> kHeadings = {
    "Calls", "Checks", "Partition and memory", "Generated kernels", "Rules of `partition=min_cut`"};

/// `[partition.md](partition.md#a-heading)`; a place on the same page by its name.
std::string link(std::string_view page) {
  constexpr std::string_view kItself = "options.md";
  if (page.starts_with(kItself)) return fmt::format("[below]({})", page.substr(kItself.size()));
  return fmt::format("[{}]({})", page.substr(0, page.find('#')), page);
}

std::string meaning(const OptionRow& row) {
  if (row.page.empty()) return std::string(row.meaning);
  return fmt::format("{} ({})", row.meaning, link(row.page));
}

std::string code(const std::string& text) { return text.empty() ? "" : fmt::format("`{}`", text); }

std::string status(const ReferenceOption& option) {
  switch (option.counterpart) {
    case Counterpart::same: return "the same";
    case Counterpart::other_name: {
      std::string names = code(std::string(option.here));
      for (size_t comma = 0; (comma = names.find(", ", comma)) != names.npos; comma += 4) {
        names.replace(comma, 2, "`, `");
      }
      return names;
    }
    case Counterpart::none: return "not applicable";
  }
  return "";
}

}  // namespace

std::string options_page() {
  std::string page;
  for (size_t group = 0; group < kHeadings.size(); ++group) {
    page += fmt::format(
        "{}### {}\n\n"
        "| option | type | default | environment variable | affects | in keys | meaning |\n"
        "|---|---|---|---|---|---|---|\n",
        page.empty() ? "" : "\n", kHeadings[group]);
    for (const OptionRow& row : option_rows()) {
      if (row.group != static_cast<OptionGroup>(group)) continue;
      page += fmt::format("| `{}` | {} | {} | {} | {} | {} | {} |\n", row.name, type_text(row),
                          default_text(row), code(environment_variable(row)), stages_text(row),
                          row.in_key ? "yes" : "", meaning(row));
    }
  }
  return page;
}

std::string reference_page() {
  std::string page = "| PyTorch | antegrad | remark |\n|---|---|---|\n";
  for (const ReferenceOption& option : reference_options()) {
    page += fmt::format("| `{}` | {} | {} |\n", option.name, status(option), option.remark);
  }
  return page;
}

std::string options_list() {
  size_t name = 0;
  size_t type = 0;
  for (const OptionRow& row : option_rows()) {
    name = std::max(name, row.name.size());
    type = std::max(type, type_text(row).size());
  }
  std::string list;
  for (const OptionRow& row : option_rows()) {
    list +=
        fmt::format("{:{}}  {:{}}  {}\n", row.name, name, type_text(row), type, default_text(row));
  }
  return list;
}

std::string details(const OptionRow& row) {
  const std::string variable = environment_variable(row);
  std::string text = fmt::format("{}: {}\n", row.name, row.meaning);
  const auto add = [&](std::string_view what, std::string_view value) {
    if (!value.empty()) text += fmt::format("  {:<12} {}\n", what, value);
  };
  add("type", type_text(row));
  add("default", default_text(row));
  add("environment", variable);
  add("affects", stages_text(row));
  add("in keys", row.in_key ? "yes" : "no");
  add("page", row.page.empty() ? "" : fmt::format("docs/{}", row.page));
  return text;
}

std::string options_json() {
  nlohmann::ordered_json list;
  for (const OptionRow& row : option_rows()) {
    list.push_back({{"name", row.name},
                    {"type", type_text(row)},
                    {"default", json_of(row.member.get(Options()))},
                    {"environment", environment_variable(row)},
                    {"affects", stages_text(row)},
                    {"in_key", row.in_key},
                    {"meaning", row.meaning}});
  }
  return list.dump(2) + "\n";
}

}  // namespace antegrad
