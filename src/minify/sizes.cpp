#include "minify/sizes.h"

#include <exception>
#include <functional>
#include <set>
#include <utility>

#include "minify/inputs.h"
#include "minify/interpreter.h"
#include "torch_compat/tensor_metadata.h"

namespace antegrad::minify {
namespace {

bool replace(Shape& shape, const IntExpr& from, const IntExpr& to) {
  bool changed = false;
  for (auto& entry : shape) {
    if (!(entry == from)) continue;
    entry = to;
    changed = true;
  }
  return changed;
}

void replace(Attr& attr, const IntExpr& from, const IntExpr& to) {
  if (auto* shape = std::get_if<Shape>(&attr.value)) replace(*shape, from, to);
  if (attr == Attr(from)) attr = Attr(to);
}

}  // namespace

std::vector<int64_t> input_sizes(const Graph& graph) {
  std::set<int64_t, std::greater<>> sizes;
  for (const auto& input : graph.inputs) {
    if (!graph.is_tensor(input.value)) continue;
    for (const auto& size : graph.value(input.value).meta.sizes) {
      if (size.is_constant() && size.constant() > 1) sizes.insert(size.constant());
    }
  }
  return {sizes.begin(), sizes.end()};
}

std::optional<Graph> resized(Graph graph, int64_t from, int64_t to) {
  for (const auto& input : graph.inputs) {
    if (!graph.is_tensor(input.value)) continue;
    auto& meta = graph.value(input.value).meta;
    if (!replace(meta.sizes, from, to)) continue;
    meta.strides = contiguous_strides(meta.sizes);
    meta.offset = 0;
  }
  for (auto& node : graph.nodes) {
    for (auto& attr : node.args) replace(attr, from, to);
  }
  try {
    auto inferred = graph;
    const auto note = [&](const Node&, ValueId value, const at::Tensor& tensor) {
      if (graph.is_tensor(value)) {
        inferred.value(value).meta = torch_compat::TensorMetadata::of(tensor).to_meta();
      }
    };
    interpret(graph, make_tables(graph, 0), make_inputs(graph, 0, Data::zeros), note);
    return inferred;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace antegrad::minify
