#include "partition/min_cut_options.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <antegrad/error.h>

namespace antegrad {
namespace {

/// Words for the values of an enum, in their order.
template <class Enum>
constexpr std::array<std::string_view, 3> kWords;
template <>
constexpr std::array<std::string_view, 3> kWords<BudgetSolver> = {"dp", "greedy", "ilp"};
template <>
constexpr std::array<std::string_view, 3> kWords<RuntimeEstimator> = {"flops", "testing",
                                                                      "profile"};

using Operators = std::optional<std::vector<std::string>>;

struct Entry {
  std::string_view name;
  std::variant<bool MinCutOptions::*, int32_t MinCutOptions::*, double MinCutOptions::*,
               BudgetSolver MinCutOptions::*, RuntimeEstimator MinCutOptions::*,
               Operators MinCutOptions::*>
      member;
};

// clang-format off
constexpr Entry kEntries[] = {
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
    {"max_dist_from_bw", &MinCutOptions::max_dist_from_bw},
    {"recomputable_ops", &MinCutOptions::recomputable_ops},
    {"activation_memory_budget", &MinCutOptions::activation_memory_budget},
    {"activation_memory_budget_solver", &MinCutOptions::activation_memory_budget_solver},
    {"activation_memory_budget_runtime_estimator", &MinCutOptions::activation_memory_budget_runtime_estimator},
};
// clang-format on

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

// A value as text.
std::string text_of(bool value) { return value ? "true" : "false"; }
std::string text_of(int32_t value) { return fmt::format("{}", value); }
std::string text_of(double value) { return fmt::format("{}", value); }
std::string text_of(const Operators& value) { return fmt::format("{}", fmt::join(*value, ",")); }
template <class Enum>
requires std::is_enum_v<Enum> std::string text_of(Enum value) {
  return std::string(kWords<Enum>[static_cast<size_t>(value)]);
}

// Text as a value: what was expected where it is none.
using Expected = std::string;

template <class Number>
bool is_number(std::string_view text, Number& value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end;
}

Expected read(std::string_view text, bool& value) {
  if (text != "true" && text != "false") return "true or false";
  value = text == "true";
  return "";
}
Expected read(std::string_view text, int32_t& value) {
  return is_number(text, value) && value >= 0 ? "" : "NUMBER, from 0 on";
}
Expected read(std::string_view text, double& value) {
  return is_number(text, value) && value >= 0 && value <= 1 ? "" : "NUMBER, from 0 to 1";
}
Expected read(std::string_view text, Operators& value) {
  value = split(text);
  return "";
}
template <class Enum>
requires std::is_enum_v<Enum> Expected read(std::string_view text, Enum& value) {
  const auto& words = kWords<Enum>;
  const auto it = std::find(words.begin(), words.end(), text);
  if (it == words.end()) return fmt::format("one of {}", fmt::join(words, ", "));
  value = static_cast<Enum>(it - words.begin());
  return "";
}

}  // namespace

std::vector<std::string> settings(const MinCutOptions& options) {
  std::vector<std::string> all;
  for (const Entry& entry : kEntries) {
    if (entry.member == decltype(entry.member)(&MinCutOptions::recomputable_ops) &&
        !options.recomputable_ops) {
      continue;
    }
    std::visit(
        [&](auto member) {
          all.push_back(fmt::format("{}={}", entry.name, text_of(options.*member)));
        },
        entry.member);
  }
  return all;
}

std::vector<std::pair<std::string, bool>> switches(const MinCutOptions& options) {
  std::vector<std::pair<std::string, bool>> all;
  for (const Entry& entry : kEntries) {
    if (const auto* member = std::get_if<bool MinCutOptions::*>(&entry.member)) {
      all.emplace_back(entry.name, options.**member);
    }
  }
  return all;
}

std::vector<std::string> setting_names() {
  std::vector<std::string> names;
  for (const Entry& entry : kEntries) names.emplace_back(entry.name);
  return names;
}

void apply_setting(MinCutOptions& options, std::string_view setting) {
  const size_t equals = setting.find('=');
  if (equals == std::string_view::npos) refuse(setting, "NAME=VALUE");
  const std::string_view name = setting.substr(0, equals);
  const auto* entry = std::find_if(std::begin(kEntries), std::end(kEntries),
                                   [&](const Entry& known) { return known.name == name; });
  if (entry == std::end(kEntries)) {
    MinCutOptions defaults;
    defaults.recomputable_ops.emplace();
    refuse(setting, fmt::format("one of {}", fmt::join(settings(defaults), ", ")));
  }
  std::visit(
      [&](auto member) {
        auto value = options.*member;
        const Expected expected = read(setting.substr(equals + 1), value);
        if (!expected.empty()) refuse(setting, fmt::format("{}={}", name, expected));
        options.*member = std::move(value);
      },
      entry->member);
}

}  // namespace antegrad
