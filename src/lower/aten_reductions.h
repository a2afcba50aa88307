#pragma once

/// \file
/// Which recipe computes a node that reduces rows or columns: softmax, layer normalisation, sums.

#include <optional>
#include <string>
#include <variant>

#include "graph/graph.h"
#include "lower/aten_recipes.h"
#include "lower/eager_cpu.h"

namespace antegrad::lower {

/// As recipe_call(), with RecipeCall::reduced; nothing if the operator is no reduction.
std::optional<std::variant<RecipeCall, std::string>> reduction_call(const Graph& graph,
                                                                    const Node& node,
                                                                    const EagerCpu& cpu,
                                                                    Level level);

}  // namespace antegrad::lower
