#pragma once

/// \file
/// Calls of ATen operators that draw random numbers on the CPU.

#include <string>
#include <string_view>
#include <variant>

#include "lower/aten_recipes.h"

namespace antegrad::lower {

bool is_draw(std::string_view name);

/// What the node draws and computes from it, or the reason, in words, why that is not known.
std::variant<RecipeCall, std::string> draw_call(const Graph& graph, const Node& node,
                                                const EagerCpu& cpu);

}  // namespace antegrad::lower
