#pragma once

/// \file
/// Words of the text form of kernels, shared by printer and parser. Each table is indexed by its
/// enum.

#include <array>
#include <string_view>

namespace antegrad::lower::words {

inline constexpr std::string_view kMagic = "antegrad.kernel";
inline constexpr int kVersion = 1;
inline constexpr auto kSpaces = std::to_array<std::string_view>({"elements", "rows", "columns"});
inline constexpr auto kStages = std::to_array<std::string_view>({"each", "row", "fold"});
inline constexpr auto kCallForms = std::to_array<std::string_view>({"lane", "vector", "strip"});
inline constexpr auto kOrders = std::to_array<std::string_view>(
    {"lanes", "cascade", "columns", "vectors", "moments", "blocks", "pairwise"});
inline constexpr auto kFused = std::to_array<std::string_view>({"vectors", "all", "none"});
inline constexpr auto kMerges = std::to_array<std::string_view>({"tree", "sequence"});

}  // namespace antegrad::lower::words
