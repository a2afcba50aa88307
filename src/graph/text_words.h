#pragma once

/// \file
/// Words and characters of the textual form. Printing and parsing share them, so the two cannot
/// diverge. docs/graph-format.md describes the whole form.

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "graph/graph.h"

namespace antegrad::text {

inline constexpr std::string_view kMagic = "antegrad.graph";
inline constexpr int kVersion = 1;
/// Upper bound of value ids, so that a malicious text cannot request unlimited memory.
inline constexpr ValueId kMaxValueId = 1 << 20;

// Each table is indexed by its enum.
inline constexpr auto kValueKinds = std::to_array<std::string_view>({"", "int", "float", "token"});
inline constexpr auto kPhases = std::to_array<std::string_view>({"forward", "backward"});
inline constexpr auto kRecompute = std::to_array<std::string_view>(
    {"", "must_save", "prefer_save", "prefer_recompute", "must_recompute"});
inline constexpr auto kInputKinds =
    std::to_array<std::string_view>({"primal", "tangent", "saved", "generator", "effect"});
inline constexpr auto kSourceKinds = std::to_array<std::string_view>(
    {"argument", "parameter", "buffer", "gradient_of", "anonymous", "constant", "sourceless"});
inline constexpr auto kInputStorages =
    std::to_array<std::string_view>({"", "frees_storage", "allocates_storage", "empty_storage"});
inline constexpr auto kSourceVias = std::to_array<std::string_view>({"", "base", "span"});
inline constexpr auto kOutputKinds = std::to_array<std::string_view>(
    {"result", "base", "mutated", "generator", "effect", "saved", "gradient"});
inline constexpr auto kAliasKinds = std::to_array<std::string_view>(
    {"unaliased", "is_input", "view_of_input", "no_grad_view_of_input", "detached_from_input",
     "data_of_input", "same_as_output", "view_of_output", "no_grad_view_of_output",
     "detached_from_output", "data_of_output"});

inline constexpr auto kOwnViews =
    std::to_array<std::string_view>({"", "in_function", "without_grad"});

template <class Enum, size_t N>
constexpr std::string_view word(const std::array<std::string_view, N>& table, Enum value) {
  return table[static_cast<size_t>(value)];
}

template <class Enum, size_t N>
constexpr std::optional<Enum> from_word(const std::array<std::string_view, N>& table,
                                        std::string_view text) {
  for (size_t i = 0; i < N; ++i) {
    if (table[i] == text && !text.empty()) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

/// Lists whose kind an empty pair of brackets does not show: printed "floats[]" if empty. An empty
/// list of integers is "[]".
template <class T>
inline constexpr std::string_view kEmptyList = "";
template <>
inline constexpr std::string_view kEmptyList<double> = "floats";
template <>
inline constexpr std::string_view kEmptyList<bool> = "bools";
template <>
inline constexpr std::string_view kEmptyList<std::string> = "strings";
template <>
inline constexpr std::string_view kEmptyList<attr::Scalar> = "scalars";

constexpr bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// The characters of unquoted words, and of names in C and schemas.
constexpr bool is_name_character(char c) { return is_letter(c) || is_digit(c); }
constexpr bool is_word_character(char c) {
  return is_name_character(c) || c == '.' || c == ':' || c == '-';
}

/// A word that needs no quotes: letters, digits and _ . : - after a letter.
constexpr bool is_bare_word(std::string_view text) {
  return !text.empty() && is_letter(text[0]) && std::ranges::all_of(text, is_word_character);
}

/// A name as C and schemas have them.
constexpr bool is_identifier(std::string_view text) {
  return !text.empty() && is_letter(text[0]) && std::ranges::all_of(text, is_name_character);
}

}  // namespace antegrad::text
