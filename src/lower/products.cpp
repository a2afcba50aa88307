#include "lower/products.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

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

/// Of a tensor of float32 on the CPU, without symbols.
template <size_t kRank>
struct Dimensions {
  std::array<int64_t, kRank> sizes, strides;
};

template <size_t kRank>
std::optional<Dimensions<kRank>> dimensions_of(const Graph& graph, ValueId id) {
  const TensorMeta& meta = graph.value(id).meta;
  if (meta.dtype != DType::f32 || meta.device.kind != DeviceKind::cpu ||
      meta.sizes.size() != kRank) {
    return std::nullopt;
  }
  Dimensions<kRank> found{};
  for (size_t d = 0; d < kRank; ++d) {
    if (!meta.sizes[d].is_constant() || !meta.strides[d].is_constant()) return std::nullopt;
    found.sizes[d] = meta.sizes[d].constant();
    found.strides[d] = meta.strides[d].constant();
  }
  return found;
}

using Matrix = Dimensions<2>;
bool is_row_major(const Matrix& m) { return m.strides[1] == 1 && m.strides[0] == m.sizes[1]; }
bool is_column_major(const Matrix& m) { return m.strides[0] == 1 && m.strides[1] == m.sizes[0]; }

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

std::optional<OtherCall> by_onednn(const Graph& graph, const Node& node) {
  const auto operands = operands_of(graph, node);
  if (!operands) return std::nullopt;
  const auto a = dimensions_of<2>(graph, node.inputs[operands->a]);
  const auto b = dimensions_of<2>(graph, node.inputs[operands->b]);
  const auto result = dimensions_of<2>(graph, node.outputs[0]);
  if (!a || !b || !result || !is_row_major(*result)) return std::nullopt;
  for (const Matrix& operand : {*a, *b}) {
    if (!is_row_major(operand) && !is_column_major(operand)) return std::nullopt;
  }
  const auto [rows, inner] = a->sizes;
  const int64_t columns = b->sizes[1];
  if (rows * inner < kLeastWork / std::max<int64_t>(columns, 1)) return std::nullopt;

  Graph made = call_alone(graph, node);
  Node& call = made.nodes.front();
  ValueId first = call.inputs[operands->a];
  std::vector<Node> before;
  if (!is_row_major(*a)) {
    TensorMeta meta = made.value(first).meta;
    meta.strides = {IntExpr(inner), IntExpr(1)};
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
  return OtherCall{.graph = std::move(made),
                   .library = "oneDNN",
                   .what = fmt::format("{}x{} {}x{}", rows, inner, inner, columns),
                   .copies = !before.empty()};
}

// --- attention ----------------------------------------------------------------------------------

constexpr std::string_view kAttention = "aten::_scaled_dot_product_flash_attention_for_cpu.default";
constexpr std::string_view kAttentionBackward =
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward.default";
constexpr int64_t kWidth = 16;  // of vectors, in numbers
/// Each thread has room for scores of all keys: with more it would be more than a MiB.
constexpr int64_t kMostKeys = 1024;

/// Of [batch, heads, rows, depth].
using Heads = Dimensions<4>;

bool has_kernels(const Heads& heads) {
  return std::ranges::find(heads.sizes, 0) == heads.sizes.end() && heads.strides[3] == 1 &&
         heads.sizes[3] % kWidth == 0;
}

/// The gradients of attention read its result and its logarithms of sums. With any others they are
/// exponentials of any size, of which both libraries lose most places.
Graph likely_inputs(const Graph& backward) {
  Graph made = backward;
  Node& call = made.nodes.front();
  const auto [first, result] = std::pair(call.inputs.begin() + 1, call.inputs.begin() + 4);
  call.op = antegrad::Op::intern(kAttention);
  call.args.erase(call.args.begin(), call.args.begin() + 3);  // three inputs instead of six
  call.outputs.clear();
  for (auto id = result; id != call.inputs.end(); ++id) {
    call.outputs.push_back(made.add_tensor(made.value(*id).meta));
  }
  call.inputs = {first, result};
  made.outputs.clear();
  for (const auto& input : made.inputs) made.outputs.emplace_back().value = input.value;
  for (size_t i = 0; i < call.outputs.size(); ++i) made.outputs[4 + i].value = call.outputs[i];
  return made;
}

std::optional<OtherCall> by_own_attention(const Graph& graph, const Node& node) {
  const bool backward = node.op.name() == kAttentionBackward;
  if (node.op.name() != kAttention && !backward) return std::nullopt;
  const size_t tensors = backward ? 6 : 3;
  const auto dropout = node.args[tensors], causal = node.args[tensors + 1];
  const auto mask = node.args[tensors + 2], scale = node.args[tensors + 3];
  const bool plain = node.tokens == 0 && dropout == Attr(0.0) && causal.is<bool>() &&
                     mask.is<attr::None>() &&
                     (scale.is<attr::None>() || (scale.is<double>() && scale.as<double>() > 0));
  if (!plain || node.inputs.size() != tensors) return std::nullopt;
  std::vector<Heads> heads;
  for (size_t i = 0; i < tensors; ++i) {
    if (i == 5) continue;  // the logarithms of sums
    const auto of = dimensions_of<4>(graph, node.inputs[i]);
    if (!of || !has_kernels(*of)) return std::nullopt;
    heads.push_back(*of);
  }
  const Heads &query = heads[backward ? 1 : 0], &key = heads[backward ? 2 : 1];
  // Queries of groups of heads may share keys, and values may have another depth.
  const Heads& value = heads[backward ? 3 : 2];
  if (query.sizes[1] != key.sizes[1] || value.sizes != key.sizes ||
      query.sizes[3] != key.sizes[3] || key.sizes[2] > kMostKeys) {
    return std::nullopt;
  }
  Graph made = call_alone(graph, node);
  std::optional<Graph> likely;
  if (backward) likely = likely_inputs(made);
  Node& call = made.nodes.front();
  call.op = antegrad::Op::intern(backward ? "antegrad::attention_backward.default"
                                          : "antegrad::attention.default");
  call.args = std::vector<Attr>(tensors, attr::Input{});
  call.args.push_back(causal);
  call.args.emplace_back(scale.is<double>() ? scale.as<double>()
                                            : 1 / std::sqrt(static_cast<double>(query.sizes[3])));
  return OtherCall{.graph = std::move(made),
                   .library = "antegrad",
                   .what = fmt::format("attention{}{} of {}, keys {}", backward ? " gradients" : "",
                                       causal.as<bool>() ? ", causal," : "",
                                       fmt::join(query.sizes, "x"), key.sizes[2]),
                   .likely_inputs = std::move(likely)};
}

}  // namespace

Graph call_alone(const Graph& graph, const Node& node) {
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

std::optional<OtherCall> other_call(const Graph& graph, const Node& node) {
  auto product = by_onednn(graph, node);
  return product ? std::move(product) : by_own_attention(graph, node);
}

}  // namespace antegrad::lower
