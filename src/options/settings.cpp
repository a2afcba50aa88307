#include "options/settings.h"

#include <utility>

#include <fmt/format.h>

#include <antegrad/error.h>

namespace antegrad {
namespace {

template <class Visit>
void each_of_min_cut(const MinCutOptions& options, Visit visit) {
  Options all;
  all.min_cut = options;
  for (const OptionRow& row : option_rows()) {
    if (row.group == OptionGroup::min_cut) visit(row, row.member.get(all));
  }
}

}  // namespace

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

std::vector<std::string> settings(const MinCutOptions& options) {
  std::vector<std::string> all;
  each_of_min_cut(options, [&](const OptionRow& row, const OptionValue& value) {
    if (std::holds_alternative<std::monostate>(value)) return;
    all.push_back(fmt::format("{}={}", row.name, text_of(value)));
  });
  return all;
}

std::vector<std::pair<std::string, bool>> switches(const MinCutOptions& options) {
  std::vector<std::pair<std::string, bool>> all;
  each_of_min_cut(options, [&](const OptionRow& row, const OptionValue& value) {
    if (const bool* on = std::get_if<bool>(&value)) all.emplace_back(row.name, *on);
  });
  return all;
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
