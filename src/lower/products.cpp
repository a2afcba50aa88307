#include "lower/products.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

namespace antegrad::lower {
namespace {

constexpr std::string_view kMm = "aten::mm.default";
constexpr std::string_view kAddmm = "aten::addmm.default";

/// Multiplications: fewer take about as long as the call.
constexpr int64_t kLeastWork = 1 << 20;

bool is_one(const Attr& arg) {
  if (!arg.is<attr::Scalar>()) return false;
  const auto& number = arg.as<attr::Scalar>().value;
  if (const auto* whole = std::get_if<IntExpr>(&number)) return *whole == IntExpr(1);
  const auto* real = std::get_if<double>(&number);
  return real != nullptr && *real == 1;
}

/// Sizes and strides of two dimensions.
struct Matrix {
  int64_t rows, columns, row_stride, column_stride;
  bool is_row_major() const { return column_stride == 1 && row_stride == columns; }
  bool is_column_major() const { return row_stride == 1 && column_stride == rows; }
};

std::optional<Matrix> matrix_of(const Graph& graph, ValueId id) {
  const TensorMeta& meta = graph.value(id).meta;
  if (meta.dtype != DType::f32 || meta.device.kind != DeviceKind::cpu || meta.sizes.size() != 2) {
    return std::nullopt;
  }
  std::vector<int64_t> numbers;
  for (const auto* list : {&meta.sizes, &meta.strides}) {
    for (const IntExpr& number : *list) {
      if (!number.is_constant()) return std::nullopt;
      numbers.push_back(number.constant());
    }
  }
  return Matrix{numbers[0], numbers[1], numbers[2], numbers[3]};
}

/// Operands of a product, as inputs of its node.
struct Operands {
  size_t a = 0, b = 1;
  bool bias = false;  ///< the input before them
};

std::optional<Operands> operands_of(const Graph& graph, const Node& node) {
  if (node.op.name() == kMm) return Operands{};
  if (node.op.name() != kAddmm || !is_one(node.args[3]) || !is_one(node.args[4])) {
    return std::nullopt;
  }
  const TensorMeta& bias = graph.value(node.inputs[0]).meta;
  const TensorMeta& result = graph.value(node.outputs[0]).meta;
  const bool for_columns = bias.dtype == DType::f32 && bias.sizes.size() == 1 &&
                           bias.sizes[0] == result.sizes[1] && is_contiguous(bias);
  if (!for_columns) return std::nullopt;
  return Operands{.a = 1, .b = 2, .bias = true};
}

}  // namespace

Graph product_alone(const Graph& graph, const Node& node) {
  Graph alone;
  alone.name = node.op.name();
  const auto copy = [&](ValueId id) {
    TensorMeta meta = graph.value(id).meta;
    meta.offset = 0;
    return alone.add_tensor(std::move(meta));
  };
  Node call = node;
  for (ValueId& input : call.inputs) {
    input = copy(input);
    alone.inputs.emplace_back().value = input;
  }
  for (ValueId& output : call.outputs) {
    output = copy(output);
    alone.outputs.emplace_back().value = output;
  }
  call.id = 0;
  call.phase = Phase::forward;
  call.block = -1;
  alone.nodes.push_back(std::move(call));
  return alone;
}

std::optional<Graph> onednn_product(const Graph& graph, const Node& node) {
  const auto operands = operands_of(graph, node);
  if (!operands) return std::nullopt;
  const auto a = matrix_of(graph, node.inputs[operands->a]);
  const auto b = matrix_of(graph, node.inputs[operands->b]);
  const auto result = matrix_of(graph, node.outputs[0]);
  if (!a || !b || !result || !result->is_row_major()) return std::nullopt;
  if (!b->is_row_major() && !b->is_column_major()) return std::nullopt;
  if (!a->is_row_major() && !a->is_column_major()) return std::nullopt;
  if (a->rows * a->columns < kLeastWork / std::max<int64_t>(b->columns, 1)) return std::nullopt;

  Graph made = product_alone(graph, node);
  Node& call = made.nodes.front();
  ValueId first = call.inputs[operands->a];
  std::vector<Node> before;
  if (!a->is_row_major()) {
    TensorMeta meta = made.value(first).meta;
    meta.strides = {IntExpr(a->columns), IntExpr(1)};
    Node copy = call;
    copy.op = antegrad::Op::intern("antegrad::restride.default");
    copy.inputs = {first};
    copy.args = {attr::Input{}, meta.strides};
    first = made.add_tensor(std::move(meta));
    copy.outputs = {first};
    before.push_back(std::move(copy));
  }
  const ValueId second = call.inputs[operands->b];
  call.op = antegrad::Op::intern("antegrad::onednn_product.default");
  call.args = {attr::Input{}, attr::Input{}, attr::None{}};
  if (operands->bias) {
    call.args.back() = attr::Input{};
    call.inputs = {first, second, call.inputs[0]};
  } else {
    call.inputs = {first, second};
  }
  call.id = static_cast<int32_t>(before.size());
  made.nodes.insert(made.nodes.begin(), before.begin(), before.end());
  return made;
}

}  // namespace antegrad::lower
