#include "lower/aten_parts.h"

#include <algorithm>

namespace antegrad::lower {
namespace {

constexpr std::string_view kCat = "aten::cat.default", kStack = "aten::stack.default";

}  // namespace

bool is_made_of_parts(std::string_view name) { return name == kCat || name == kStack; }

std::variant<PartsCall, std::string> parts_call(const Graph& graph, const Node& node) {
  const std::string& name = node.op.name();
  const TensorMeta& result = graph.value(node.outputs[0]).meta;
  if (node.args.size() != 2 || !node.args[1].is<IntExpr>()) return name + " has unknown arguments";
  for (const ValueId part : node.inputs) {
    const TensorMeta& meta = graph.value(part).meta;
    if (meta.sizes != graph.value(node.inputs[0]).meta.sizes) {
      return name + " has parts of different shapes";
    }
    if (meta.dtype != result.dtype) return name + " converts";
  }
  const auto rank = static_cast<int64_t>(result.sizes.size());
  int64_t dimension = node.args[1].as<IntExpr>().maybe_constant().value_or(rank);
  if (dimension < 0) dimension += rank;
  if (dimension < 0 || dimension >= rank) return name + " has an unknown dimension";
  return PartsCall{static_cast<size_t>(dimension), name == kStack};
}

TensorLayout layout_in_result(const PartsCall& call, TensorLayout part) {
  if (call.stacked) {
    part.insert(part.begin() + static_cast<std::ptrdiff_t>(call.dimension), Atoms());
  }
  return part;
}

int64_t step_of_parts(const Graph& graph, const Node& node, const PartsCall& call) {
  const int64_t stride = stride_at(graph.value(node.outputs[0]).meta, call.dimension);
  const TensorMeta& part = graph.value(node.inputs[0]).meta;
  return call.stacked ? stride : stride * size_at(part, call.dimension);
}

}  // namespace antegrad::lower
