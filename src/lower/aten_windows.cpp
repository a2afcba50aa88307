#include "lower/aten_windows.h"

#include <optional>

#include "lower/group_layout.h"

namespace antegrad::lower {
namespace {

constexpr std::string_view kMaxPool = "aten::max_pool2d_with_indices.default";
/// Each element of a window is code of its own.
constexpr int64_t kLargestWindow = 9;

/// An argument of one or two numbers; `none` stands for an empty one.
std::optional<WindowCall::Pair> pair_of(const Attr& argument, WindowCall::Pair none) {
  if (!argument.is<Shape>()) return {};
  const Shape& numbers = argument.as<Shape>();
  if (numbers.empty()) return none;
  if (numbers.size() > 2) return {};
  return WindowCall::Pair{numbers.front().constant(), numbers.back().constant()};
}

}  // namespace

bool is_of_windows(std::string_view name) { return name == kMaxPool; }

std::variant<WindowCall, std::string> window_call(const Graph& graph, const Node& node) {
  const std::string& name = node.op.name();
  const TensorMeta& from = graph.value(node.inputs[0]).meta;
  const TensorMeta& to = graph.value(node.outputs[0]).meta;
  if (node.args.size() != 6) return name + " has unknown arguments";
  WindowCall call{.source = node.inputs[0]};
  const auto size = pair_of(node.args[1], {});
  const auto stride = pair_of(node.args[2], size.value_or(WindowCall::Pair()));
  const auto padding = pair_of(node.args[3], {});
  const auto dilation = pair_of(node.args[4], {1, 1});
  if (!size || !stride || !padding || !dilation) return name + " has unknown arguments";
  call.size = *size, call.stride = *stride, call.padding = *padding, call.dilation = *dilation;
  if (from.dtype != DType::f32) return name + " has no recipe for this type";
  if (!is_contiguous(from)) return name + " has an operand that is not contiguous";
  if (call.size[0] * call.size[1] > kLargestWindow) return name + " has large windows";
  const size_t first = from.sizes.size() - 2;
  call.inside = true;
  for (size_t i = 0; i < 2; ++i) {
    const int64_t last = (size_at(to, first + i) - 1) * call.stride[i] - call.padding[i];
    const int64_t end = last + (call.size[i] - 1) * call.dilation[i];
    call.inside = call.inside && call.padding[i] == 0 && end < size_at(from, first + i);
  }
  // Beyond an edge the nearest element is read again, which must be one of the window.
  const bool spread = call.dilation != WindowCall::Pair{1, 1};
  if (!call.inside && spread) return name + " has spread windows that reach over an edge";
  return call;
}

}  // namespace antegrad::lower
