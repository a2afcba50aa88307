#pragma once

/// \file
/// Words for the values of enum options. They are the same in text, JSON, Python, records and on
/// the command line.

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include <antegrad/options.h>

namespace antegrad {

/// Indexed by the enum.
template <class Enum>
constexpr auto kWords = std::array<std::string_view, 0>{};
template <>
inline constexpr auto kWords<OnRefusal> = std::array<std::string_view, 2>{"error", "eager"};
template <>
inline constexpr auto kWords<Audit> = std::array<std::string_view, 3>{"off", "pow2", "every"};
template <>
inline constexpr auto kWords<CrossCheckShapes> =
    std::array<std::string_view, 3>{"off", "error", "use_kernel"};
template <>
inline constexpr auto kWords<Partitioner> =
    std::array<std::string_view, 3>{"as_written", "min_cut", "budget"};
template <>
inline constexpr auto kWords<BudgetEffort> = std::array<std::string_view, 2>{"quick", "thorough"};
template <>
inline constexpr auto kWords<BudgetSolver> = std::array<std::string_view, 3>{"dp", "greedy", "ilp"};
template <>
inline constexpr auto kWords<RuntimeEstimator> =
    std::array<std::string_view, 3>{"flops", "testing", "profile"};
template <>
inline constexpr auto kWords<Compressor> = std::array<std::string_view, 5>{
    "bf16", "fp8_e4m3", "fp8_e5m2", "int8_rowwise", "offload_to_host"};
template <>
inline constexpr auto kWords<HookFilter> =
    std::array<std::string_view, 3>{"donated", "no_static", "all"};

template <>
inline constexpr auto kWords<OptionalPass> =
    std::array<std::string_view, 4>{"no_ops", "size_only_inputs", "cse", "reinplace"};

template <class Enum>
constexpr std::string_view word_of(Enum value) {
  return kWords<Enum>[static_cast<size_t>(value)];
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
