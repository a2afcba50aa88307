#include "options/settings.h"

#include <utility>

#include <fmt/format.h>

#include <antegrad/error.h>

namespace antegrad {

void apply_settings(const std::vector<Setting>& settings, Options& options) {
  Options changed = options;
  for (const bool partition : {false, true}) {
    for (const auto& [name, value] : settings) {
      if ((name == "partition") == partition) set(option_named(name), changed, value);
    }
  }
  options = std::move(changed);
}

std::pair<std::string_view, std::string_view> name_and_value(std::string_view setting) {
  const size_t equals = setting.find('=');
  if (equals == std::string_view::npos) {
    throw OptionError(ErrorText{"NAME=VALUE", fmt::format("\"{}\"", setting), ""});
  }
  return {setting.substr(0, equals), setting.substr(equals + 1)};
}

std::vector<std::string_view> names_of(OptionGroup group) {
  std::vector<std::string_view> names;
  for (const OptionRow& row : option_rows()) {
    if (row.group == group) names.push_back(row.name);
  }
  return names;
}

std::vector<std::string> settings(const Options& options,
                                  const std::vector<std::string_view>& names) {
  std::vector<std::string> all;
  for (const std::string_view name : names) {
    const OptionValue value = option_named(name).member.get(options);
    if (std::holds_alternative<std::monostate>(value)) continue;
    all.push_back(fmt::format("{}={}", name, text_of(value)));
  }
  return all;
}

std::vector<std::string> settings(const MinCutOptions& options) {
  return settings(Options().with_min_cut(options), names_of(OptionGroup::min_cut));
}

void apply_setting(MinCutOptions& options, std::string_view setting) {
  const auto [name, value] = name_and_value(setting);
  const OptionRow& row = option_named(name);
  if (row.group != OptionGroup::min_cut) {
    throw OptionError(ErrorText{"an option of the minimum cut", fmt::format("\"{}\"", name), ""});
  }
  Options all;
  all.min_cut = options;
  set(row, all, std::string(value));
  options = std::move(all.min_cut);
}

}  // namespace antegrad
