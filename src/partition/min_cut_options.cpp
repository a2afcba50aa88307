#include "partition/min_cut_options.h"

#include <charconv>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <antegrad/error.h>

namespace antegrad {
namespace {

struct Switch {
  std::string_view name;
  bool MinCutOptions::*value;
};

constexpr Switch kSwitches[] = {
    {"ban_recompute_used_far_apart", &MinCutOptions::ban_recompute_used_far_apart},
    {"ban_recompute_long_fusible_chains", &MinCutOptions::ban_recompute_long_fusible_chains},
    {"ban_recompute_materialized_backward", &MinCutOptions::ban_recompute_materialized_backward},
    {"ban_recompute_not_in_allowlist", &MinCutOptions::ban_recompute_not_in_allowlist},
    {"ban_recompute_reductions", &MinCutOptions::ban_recompute_reductions},
    {"ban_recompute_compute_intensive", &MinCutOptions::ban_recompute_compute_intensive},
    {"ban_recompute_random", &MinCutOptions::ban_recompute_random},
    {"aggressive_recomputation", &MinCutOptions::aggressive_recomputation},
    {"recompute_views", &MinCutOptions::recompute_views},
    {"treat_parameters_as_free_to_save", &MinCutOptions::treat_parameters_as_free_to_save},
    {"recompute_low_precision_weights", &MinCutOptions::recompute_low_precision_weights},
    {"distance_weighting", &MinCutOptions::distance_weighting},
    {"double_unmaterialized", &MinCutOptions::double_unmaterialized},
    {"never_more_than_default", &MinCutOptions::never_more_than_default},
};
constexpr std::string_view kDistance = "max_dist_from_bw";
constexpr std::string_view kOperators = "recomputable_ops";

[[noreturn]] void refuse(std::string_view setting, const std::string& expected) {
  throw OptionError(ErrorText{expected, fmt::format("\"{}\"", setting), ""});
}

std::vector<std::string> split(std::string_view words) {
  std::vector<std::string> parts;
  while (!words.empty()) {
    const size_t comma = std::min(words.find(','), words.size());
    if (comma > 0) parts.emplace_back(words.substr(0, comma));
    words.remove_prefix(std::min(comma + 1, words.size()));
  }
  return parts;
}

}  // namespace

std::vector<std::string> settings(const MinCutOptions& options) {
  std::vector<std::string> all;
  for (const Switch& entry : kSwitches) {
    all.push_back(fmt::format("{}={}", entry.name, options.*entry.value));
  }
  all.push_back(fmt::format("{}={}", kDistance, options.max_dist_from_bw));
  if (options.recomputable_ops) {
    all.push_back(fmt::format("{}={}", kOperators, fmt::join(*options.recomputable_ops, ",")));
  }
  return all;
}

std::vector<std::pair<std::string, bool>> switches(const MinCutOptions& options) {
  std::vector<std::pair<std::string, bool>> all;
  for (const Switch& entry : kSwitches) all.emplace_back(entry.name, options.*entry.value);
  return all;
}

std::vector<std::string> setting_names() {
  std::vector<std::string> names;
  for (const Switch& entry : kSwitches) names.emplace_back(entry.name);
  names.emplace_back(kDistance);
  names.emplace_back(kOperators);
  return names;
}

void apply_setting(MinCutOptions& options, std::string_view setting) {
  const size_t equals = setting.find('=');
  if (equals == std::string_view::npos) refuse(setting, "NAME=VALUE");
  const std::string_view name = setting.substr(0, equals);
  const std::string_view value = setting.substr(equals + 1);
  for (const Switch& entry : kSwitches) {
    if (entry.name != name) continue;
    if (value != "true" && value != "false") refuse(setting, fmt::format("{}=true or false", name));
    options.*entry.value = value == "true";
    return;
  }
  if (name == kDistance) {
    int32_t steps = 0;
    const char* end = value.data() + value.size();
    const auto [stop, error] = std::from_chars(value.data(), end, steps);
    if (error != std::errc() || stop != end || steps < 0) {
      refuse(setting, fmt::format("{}=NUMBER, from 0 on", name));
    }
    options.max_dist_from_bw = steps;
  } else if (name == kOperators) {
    options.recomputable_ops = split(value);
  } else {
    MinCutOptions defaults;
    defaults.recomputable_ops.emplace();
    refuse(setting, fmt::format("one of {}", fmt::join(settings(defaults), ", ")));
  }
}

}  // namespace antegrad
