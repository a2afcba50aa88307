#pragma once

/// \file
/// Suggestions for a mistyped name.

#include <span>
#include <string_view>
#include <vector>

namespace antegrad {

/// At most three of `names`: those that differ from `name` in the fewest letters, if that is about
/// a third of them or less; otherwise those that contain it.
std::vector<std::string_view> nearest_names(std::string_view name,
                                            std::span<const std::string_view> names);

}  // namespace antegrad
