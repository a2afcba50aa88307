#pragma once

/// \file
/// The element type in which eager ATen computes a call of a recipe.

#include <string>
#include <variant>

#include "graph/graph.h"
#include "lower/aten_recipes.h"
#include "lower/level.h"

namespace antegrad::lower {

/// The element type of a node that is computed by `call`, which has a recipe; or the reason, in
/// words, why it is not known. Operands of other types are converted to it first; at Level::close
/// they may be f32 beside halves, and are not rounded then.
std::variant<DType, std::string> element_of(const Graph& graph, const Node& node,
                                            const RecipeCall& call, Level level);

/// Whether generated code has the type.
bool is_known_type(DType type);

/// Whether a number becomes an element of the type without a loss of digits before the point:
/// every number does where the type is a floating-point one.
bool is_number_of(DType type, double number);

}  // namespace antegrad::lower
