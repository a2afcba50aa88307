#include "lower/biased_product.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace antegrad::lower {
namespace {

constexpr std::string_view kProduct = "aten::mm.default";

bool is_one(const Attr& arg) {
  if (!arg.is<attr::Scalar>()) return false;
  const auto& number = arg.as<attr::Scalar>().value;
  if (const auto* whole = std::get_if<IntExpr>(&number)) return *whole == IntExpr(1);
  const auto* real = std::get_if<double>(&number);
  return real != nullptr && *real == 1;
}

bool is_of_columns(const TensorMeta& bias, const TensorMeta& result) {
  return bias.dtype == result.dtype && bias.sizes.size() == 1 && !result.sizes.empty() &&
         bias.sizes[0] == result.sizes.back() && is_contiguous(bias);
}

bool is_reshape(const Graph& graph, const Node& node) {
  const std::string_view name = node.op.name();
  return (name == "aten::view.default" || name == "aten::_unsafe_view.default") &&
         is_contiguous(graph.value(node.outputs[0]).meta);
}

}  // namespace

std::optional<Product> product_at(const Graph& graph, int32_t position) {
  const Node& node = graph.nodes[position];
  Product product{.nodes = {position}};
  if (node.op.name() == kProduct) {
    product.a = node.inputs[0];
    product.b = node.inputs[1];
  } else if (node.op.name() == "aten::addmm.default" && is_one(node.args[3]) &&
             is_one(node.args[4])) {
    product.bias = node.inputs[0];
    product.a = node.inputs[1];
    product.b = node.inputs[2];
  } else {
    return std::nullopt;
  }
  product.result = node.outputs[0];
  const auto& meta = [&](ValueId id) -> const TensorMeta& { return graph.value(id).meta; };
  if (product.bias != kNoValue && !is_of_columns(meta(product.bias), meta(product.result))) {
    return std::nullopt;
  }
  return product;
}

std::optional<Product> biased_product_at(const Graph& graph, const GraphUses& uses,
                                         int32_t position) {
  const Node& add = graph.nodes[position];
  if (add.op.name() != "aten::add.Tensor" || add.inputs.size() != 2 || !is_one(add.args[2])) {
    return std::nullopt;
  }
  const TensorMeta& sum = graph.value(add.outputs[0]).meta;
  const bool second = is_of_columns(graph.value(add.inputs[1]).meta, sum);
  const ValueId bias = add.inputs[second ? 1 : 0], terms = add.inputs[second ? 0 : 1];
  const TensorMeta& meta = graph.value(terms).meta;
  if (!is_of_columns(graph.value(bias).meta, sum) || meta.sizes != sum.sizes ||
      meta.dtype != sum.dtype || !is_contiguous(meta) || !is_contiguous(sum)) {
    return std::nullopt;
  }
  std::vector<int32_t> nodes = {position};
  int32_t maker = uses.producers[terms];
  if (maker >= 0 && is_reshape(graph, graph.nodes[maker])) {
    nodes.push_back(maker);
    maker = uses.producers[graph.nodes[maker].inputs[0]];
  }
  if (maker < 0 || graph.nodes[maker].op.name() != kProduct) return std::nullopt;
  nodes.push_back(maker);
  std::ranges::reverse(nodes);
  const Node& product = graph.nodes[maker];
  const Value& result = graph.value(product.outputs[0]);
  // A view may also split columns.
  if (result.meta.sizes[1] != sum.sizes.back() || !is_contiguous(result.meta) ||
      uses.readers.any_but(result.storage, nodes) ||
      uses.readers.any_but(graph.value(terms).storage, nodes)) {
    return std::nullopt;
  }
  return Product{.nodes = std::move(nodes),
                 .a = product.inputs[0],
                 .b = product.inputs[1],
                 .bias = bias,
                 .result = add.outputs[0]};
}

}  // namespace antegrad::lower
