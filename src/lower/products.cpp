#include "lower/products.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lower/kernel_graph.h"

namespace antegrad::lower {
namespace {

/// Multiplications: fewer take about as long as the call.
constexpr int64_t kLeastWork = 1 << 20;

DeviceKind device_of(const Graph& graph, ValueId id) { return graph.value(id).meta.device.kind; }

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

/// These nodes alone, and a call of `name` in their place that reads `operands`, and whose
/// arguments are missing.
OtherCall instead_of(const Graph& graph, std::vector<int32_t> nodes,
                     const std::vector<ValueId>& operands, std::string_view name) {
  const Node& last = graph.nodes[nodes.back()];
  Node ends;
  for (const ValueId id : operands) {
    if (std::ranges::find(ends.inputs, id) == ends.inputs.end()) ends.inputs.push_back(id);
  }
  ends.outputs = last.outputs;
  OtherCall made{.library = group_alone(graph, nodes, ends)};
  made.library.name = last.op.name();
  for (auto& value : made.library.values) value.meta.offset = 0;
  for (size_t i = 0; i < made.library.nodes.size(); ++i) {
    Node& node = made.library.nodes[i];
    node.id = static_cast<int32_t>(i);
    node.phase = Phase::forward;
    node.block = -1;
  }
  const auto add = [&](const auto& from, auto& to) {
    to.emplace_back().value = made.graph.add_tensor(made.library.value(from.value).meta);
    return to.back().value;
  };
  Node call = made.library.nodes.back();
  call.op = antegrad::Op::intern(name);
  call.id = 0;
  call.inputs.clear();
  call.outputs.clear();
  call.args.clear();
  made.graph.name = made.library.name;
  for (const auto& input : made.library.inputs) add(input, made.graph.inputs);
  for (const ValueId id : operands) {
    const auto place = std::ranges::find(ends.inputs, id) - ends.inputs.begin();
    call.inputs.push_back(made.graph.inputs[place].value);
  }
  for (const auto& output : made.library.outputs) {
    call.outputs.push_back(add(output, made.graph.outputs));
  }
  made.graph.nodes.push_back(std::move(call));
  made.nodes = std::move(nodes);
  made.inputs = std::move(ends.inputs);
  return made;
}

// --- products -----------------------------------------------------------------------------------

using Matrix = Dimensions<2>;
bool is_row_major(const Matrix& m) { return m.strides[1] == 1 && m.strides[0] == m.sizes[1]; }
bool is_column_major(const Matrix& m) { return m.strides[0] == 1 && m.strides[1] == m.sizes[0]; }

/// A call with the operands a, b, and a bias if there is one, and the sizes of the result.
OtherCall product_by(std::string_view name, const Graph& graph, const Product& product) {
  std::vector<ValueId> operands = {product.a, product.b};
  if (product.bias != kNoValue) operands.push_back(product.bias);
  auto made = instead_of(graph, product.nodes, operands, name);
  const TensorMeta& result = graph.value(product.result).meta;
  made.graph.nodes.front().args = {
      attr::Input{}, attr::Input{},
      product.bias == kNoValue ? Attr(attr::None{}) : Attr(attr::Input{}), result.sizes};
  const auto size = [&](ValueId id, size_t d) { return to_string(graph.value(id).meta.sizes[d]); };
  made.what = fmt::format("{0}x{1} {1}x{2}{3}", size(product.a, 0), size(product.a, 1),
                          size(product.b, 1), product.bias == kNoValue ? "" : " with bias");
  return made;
}

std::optional<OtherCall> by_onednn(const Graph& graph, const Product& product) {
  const auto a = dimensions_of<2>(graph, product.a);
  const auto b = dimensions_of<2>(graph, product.b);
  const TensorMeta& result = graph.value(product.result).meta;
  if (!a || !b || result.dtype != DType::f32 || !is_contiguous(result)) return std::nullopt;
  for (const Matrix& operand : {*a, *b}) {
    if (!is_row_major(operand) && !is_column_major(operand)) return std::nullopt;
  }
  const auto [rows, inner] = a->sizes;
  const int64_t columns = b->sizes[1];
  if (rows * inner < kLeastWork / std::max<int64_t>(columns, 1)) return std::nullopt;

  auto made = product_by("antegrad::onednn_product.default", graph, product);
  made.by = "oneDNN";
  if (is_row_major(*a)) return made;
  Node& call = made.graph.nodes.front();
  TensorMeta meta = made.graph.value(call.inputs[0]).meta;
  meta.strides = {IntExpr(inner), IntExpr(1)};
  Node copy = call;
  copy.op = antegrad::Op::intern("antegrad::restride.default");
  copy.inputs = {call.inputs[0]};
  copy.args = {attr::Input{}, meta.strides};
  copy.outputs = {made.graph.add_tensor(std::move(meta))};
  call.inputs[0] = copy.outputs[0];
  call.id = 1;
  made.graph.nodes.insert(made.graph.nodes.begin(), std::move(copy));
  made.copies = true;
  return made;
}

/// libtorch's own call with a bias, which it adds to sums that are not rounded yet.
OtherCall with_bias(const Graph& graph, const Product& product) {
  auto made = product_by("antegrad::biased_product.default", graph, product);
  made.by = "libtorch";
  return made;
}

void add_products(const Graph& graph, const GraphUses& uses, int32_t position,
                  std::vector<OtherCall>& calls) {
  const auto biased = biased_product_at(graph, uses, position);
  const auto product = biased ? biased : product_at(graph, position);
  if (!product) return;
  const DeviceKind device = device_of(graph, product->result);
  if (device == DeviceKind::cpu) {
    if (auto call = by_onednn(graph, *product)) calls.push_back(std::move(*call));
  } else if (biased && device == DeviceKind::cuda) {
    calls.push_back(with_bias(graph, *product));
  }
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

std::optional<OtherCall> by_own_attention(const Graph& graph, int32_t position) {
  const Node& node = graph.nodes[position];
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
  auto made =
      instead_of(graph, {position}, node.inputs,
                 backward ? "antegrad::attention_backward.default" : "antegrad::attention.default");
  if (backward) made.likely_inputs = likely_inputs(made.library);
  Node& call = made.graph.nodes.front();
  call.args = std::vector<Attr>(tensors, attr::Input{});
  call.args.push_back(causal);
  call.args.emplace_back(scale.is<double>() ? scale.as<double>()
                                            : 1 / std::sqrt(static_cast<double>(query.sizes[3])));
  made.by = "antegrad";
  made.what =
      fmt::format("attention{}{} of {}, keys {}", backward ? " gradients" : "",
                  causal.as<bool>() ? ", causal," : "", fmt::join(query.sizes, "x"), key.sizes[2]);
  return made;
}

}  // namespace

std::vector<OtherCall> other_calls(const Graph& graph, const GraphUses& uses, int32_t position) {
  std::vector<OtherCall> calls;
  add_products(graph, uses, position, calls);
  if (auto call = by_own_attention(graph, position)) calls.push_back(std::move(*call));
  return calls;
}

}  // namespace antegrad::lower
