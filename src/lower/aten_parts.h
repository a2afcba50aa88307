#pragma once

/// \file
/// Calls of ATen operators whose result has tensors of one shape side by side: cat and stack.

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "graph/graph.h"
#include "lower/group_layout.h"

namespace antegrad::lower {

/// Input i of the node is part i of its result, along this dimension of the result.
struct PartsCall {
  size_t dimension = 0;
  bool stacked = false;  ///< a part has one element of the dimension, which the input has not
};

bool is_made_of_parts(std::string_view name);

/// How the parts lie in the result, or the reason, in words, why there is no kernel.
std::variant<PartsCall, std::string> parts_call(const Graph& graph, const Node& node);

/// The layout of the result, by that of a part, as far as one part is concerned.
TensorLayout layout_in_result(const PartsCall& call, TensorLayout part);

/// How far apart the first elements of two parts lie in the memory of the result.
int64_t step_of_parts(const Graph& graph, const Node& node, const PartsCall& call);

}  // namespace antegrad::lower
