#pragma once

/// \file
/// What somebody who mistyped a name may have meant.

#include <span>
#include <string_view>
#include <vector>

namespace antegrad {

/// At most three of `names`: those that differ from `name` in the fewest letters, if that is about a third of them or less, and
/// else those that it is a part of.
std::vector<std::string_view> nearest_names(std::string_view name,
                                            std::span<const std::string_view> names);

}  // namespace antegrad
