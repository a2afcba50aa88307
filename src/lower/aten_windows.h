#pragma once

/// \file
/// Calls of ATen operators whose results are made from windows of an image:
/// max_pool2d_with_indices.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "graph/graph.h"

namespace antegrad::lower {

/// Along height and width, the last two dimensions: element o of a result is made from the elements
/// o * stride - padding + k * dilation of the source, k < size, that lie inside.
struct WindowCall {
  using Pair = std::array<int64_t, 2>;
  ValueId source;
  Pair size{}, stride{}, padding{}, dilation{};
  bool inside = false;  ///< all windows lie inside
};

bool is_of_windows(std::string_view name);

/// The windows of a node, or the reason, in words, why there is no kernel. Sizes must be numbers.
std::variant<WindowCall, std::string> window_call(const Graph& graph, const Node& node);

}  // namespace antegrad::lower
