#pragma once

/// \file
/// Words for the values of enum options. They are the same in text, JSON, Python, records and on
/// the command line.

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include <antegrad/options.h>

namespace antegrad {

template <class... Words>
constexpr std::array<std::string_view, sizeof...(Words)> word_table(Words... words) {
  return {words...};
}

// Indexed by the enum.
constexpr auto words_of(OnRefusal) { return word_table("error", "eager"); }
constexpr auto words_of(Audit) { return word_table("off", "pow2", "every"); }
constexpr auto words_of(CrossCheckShapes) { return word_table("off", "error", "use_kernel"); }
constexpr auto words_of(Partitioner) {
  return word_table("as_written", "min_cut", "budget", "priced");
}
constexpr auto words_of(BudgetEffort) { return word_table("quick", "thorough"); }
constexpr auto words_of(BudgetProfile) { return word_table("off", "calibrated", "measured"); }
constexpr auto words_of(BudgetSolver) { return word_table("dp", "greedy", "ilp"); }
constexpr auto words_of(RuntimeEstimator) { return word_table("flops", "testing", "profile"); }
constexpr auto words_of(Compressor) {
  return word_table("bf16", "fp8_e4m3", "fp8_e5m2", "int8_rowwise", "offload_to_host");
}
constexpr auto words_of(HookFilter) { return word_table("donated", "no_static", "all"); }
constexpr auto words_of(Lowering) { return word_table("off", "exact", "close"); }
constexpr auto words_of(KeptMemory) { return word_table("keep", "trim", "free"); }
constexpr auto words_of(GpuGraphs) { return word_table("off", "on"); }
constexpr auto words_of(OptionalPass) {
  return word_table("no_ops", "size_only_inputs", "bool_masks", "cse", "reinplace");
}

template <class Enum>
inline constexpr auto kWords = words_of(Enum());

/// Throws OptionError: a number that is no value of an enum with these words.
[[noreturn]] void refuse_enum_value(size_t number, std::span<const std::string_view> words);

/// Throws OptionError for a number that is no value of the enum.
template <class Enum>
constexpr std::string_view word_of(Enum value) {
  const auto number = static_cast<size_t>(value);
  if (number >= kWords<Enum>.size()) refuse_enum_value(number, kWords<Enum>);
  return kWords<Enum>[number];
}

/// Nothing for a text that is not one of the enum's words.
template <class Enum>
constexpr std::optional<Enum> from_word(std::string_view text) {
  const auto& words = kWords<Enum>;
  const auto it = std::find(words.begin(), words.end(), text);
  if (it == words.end()) return std::nullopt;
  return static_cast<Enum>(it - words.begin());
}

}  // namespace antegrad
