#include "cost/op_flops.h"

#include <algorithm>
#include <limits>
#include <span>
#include <string>
#include <unordered_map>

#include <fmt/format.h>

#include <antegrad/error.h>

#include "cost/saturating.h"
#include "graph/text.h"

namespace antegrad {
namespace {

using Sizes = std::vector<int64_t>;

int64_t product(std::span<const int64_t> factors) {
  int64_t result = 1;
  for (const int64_t factor : factors) result = times(result, factor);
  return result;
}

/// The arguments of a node by their position in the schema.
class Call {
 public:
  Call(const Graph& graph, const Node& node, const std::vector<int64_t>& symbols)
      : graph_(graph), node_(node), symbols_(symbols) {}

  bool has(size_t arg) const { return arg < node_.args.size() && is_tensor(node_.args[arg]); }

  /// Sizes of the tensor at this position, which must have at least `rank` dimensions.
  Sizes tensor(size_t arg, size_t rank = 0) const {
    if (!has(arg)) refuse(fmt::format("a tensor as argument {}", arg));
    Sizes sizes = sizes_of(node_.inputs[first_input(arg)]);
    if (sizes.size() < rank) {
      refuse(fmt::format("at least {} dimensions of argument {}", rank, arg));
    }
    return sizes;
  }

  /// Sizes of each tensor of a list.
  std::vector<Sizes> tensors(size_t arg) const {
    std::vector<Sizes> all;
    if (arg >= node_.args.size()) return all;
    const size_t first = first_input(arg);
    const size_t count = node_.args[arg].input_count();
    for (size_t i = 0; i < count; ++i) all.push_back(sizes_of(node_.inputs[first + i]));
    return all;
  }

  /// Sizes of the first output; no dimensions if it is undefined.
  Sizes output() const {
    return node_.outputs.empty() || node_.outputs[0] == kNoValue ? Sizes{}
                                                                 : sizes_of(node_.outputs[0]);
  }

  /// Whether the operator computes output `i`: it is defined, and the mask, if any, includes it.
  /// The mask is the last list of bools among the arguments.
  bool computes(size_t i) const {
    if (i >= node_.outputs.size() || node_.outputs[i] == kNoValue) return false;
    return is_asked_for(i);
  }
  bool is_asked_for(size_t i) const {
    for (size_t arg = node_.args.size(); arg-- > 0;) {
      if (!node_.args[arg].is<std::vector<bool>>()) continue;
      const auto& mask = node_.args[arg].as<std::vector<bool>>();
      return i >= mask.size() || mask[i];
    }
    return true;
  }

  bool flag(size_t arg) const {
    return arg < node_.args.size() && node_.args[arg].is<bool>() && node_.args[arg].as<bool>();
  }
  int64_t integer(size_t arg, int64_t otherwise) const {
    if (arg >= node_.args.size() || !node_.args[arg].is<IntExpr>()) return otherwise;
    return node_.args[arg].as<IntExpr>().evaluate(symbols_);
  }
  Sizes integers(size_t arg) const {
    return arg < node_.args.size() && node_.args[arg].is<Shape>()
               ? evaluated(node_.args[arg].as<Shape>())
               : Sizes{};
  }

 private:
  static bool is_tensor(const Attr& attr) { return attr.is<attr::Input>(); }

  size_t first_input(size_t arg) const {
    size_t first = 0;
    for (size_t i = 0; i < arg; ++i) first += node_.args[i].input_count();
    return first;
  }

  Sizes evaluated(const Shape& shape) const {
    Sizes sizes;
    for (const IntExpr& size : shape) sizes.push_back(size.evaluate(symbols_));
    return sizes;
  }
  Sizes sizes_of(ValueId id) const { return evaluated(graph_.value(id).meta.sizes); }

  [[noreturn]] void refuse(const std::string& expected) const {
    throw GraphError(ErrorText{expected, node_text(graph_, node_), ""});
  }

  const Graph& graph_;
  const Node& node_;
  const std::vector<int64_t>& symbols_;
};

// --- matrix products ----------------------------------------------------------------------------

/// Each output element is a sum over the last dimension of argument `Arg`.
template <size_t Arg>
int64_t dot_products(const Call& call) {
  return times(2, times(product(call.output()), call.tensor(Arg, 1).back()));
}

/// addbmm: multiplies the matrices of a batch and sums the products.
int64_t summed_batch(const Call& call) {
  return times(dot_products<1>(call), call.tensor(1, 3)[0]);
}

int64_t outer_product(const Call& call) { return times(2, product(call.output())); }

/// Groups are a third dimension of one operand, or divide a dimension of both. With a stack of
/// matrices times one matrix, each group uses its own columns.
int64_t grouped_product(const Call& call) {
  const Sizes a = call.tensor(0, 2);
  const Sizes b = call.tensor(1, 2);
  const int64_t rows = a.size() == 3 && b.size() == 2 ? a[1] : product({a.data(), a.size() - 1});
  return times(2, times(times(rows, a.back()), b.back()));
}

/// linear_backward(input, grad, weight): two products, each as large as the forward's.
int64_t linear_backward(const Call& call) {
  const int64_t one = times(2, times(product(call.tensor(1, 1)), call.tensor(0, 1).back()));
  return times(one, int{call.computes(0)} + int{call.computes(1)});
}

// --- distances, bilinear forms ------------------------------------------------------------------

/// A difference, a power and a sum for each element of each pair of rows. `Rows` is the position of
/// the rows.
template <size_t Rows, size_t Others>
int64_t distances(const Call& call) {
  const Sizes rows = call.tensor(Rows, 2);
  const Sizes others = call.tensor(Others, 2);
  return times(3, times(product(rows), others[others.size() - 2]));
}

/// The three operands are unsqueezed and broadcast to one size. Each element takes two
/// multiplications and an addition.
int64_t trilinear(const Call& call) {
  Sizes full;
  for (size_t operand = 0; operand < 3; ++operand) {
    Sizes sizes = call.tensor(operand);
    for (const int64_t dim : call.integers(3 + operand)) {
      const auto place = std::clamp<int64_t>(dim, 0, static_cast<int64_t>(sizes.size()));
      sizes.insert(sizes.begin() + place, 1);
    }
    full.resize(std::max(full.size(), sizes.size()), 1);
    for (size_t i = 0; i < sizes.size(); ++i) full[i] = std::max(full[i], sizes[i]);
  }
  return times(3, product(full));
}

// --- convolutions -------------------------------------------------------------------------------

/// The number of positions in all images: the product of all dimensions except the channels.
int64_t places(const Sizes& image, const Sizes& weight) {
  if (image.size() + 1 < weight.size() || weight.size() < 2) return 0;
  const size_t channels = image.size() - (weight.size() - 1);
  int64_t count = 1;
  for (size_t i = 0; i < image.size(); ++i) count = times(count, i == channels ? 1 : image[i]);
  return count;
}

/// The weight is applied at each position of the smaller side: the output, or the input of a
/// transposed convolution. It has one group's input channels for each output channel (or the
/// reverse).
int64_t convolution_of(const Sizes& small, const Sizes& weight) {
  return times(2, times(product(weight), places(small, weight)));
}

int64_t plain_convolution(const Call& call) {
  return convolution_of(call.output(), call.tensor(1, 2));
}
int64_t transposed_convolution(const Call& call) {
  return convolution_of(call.tensor(0), call.tensor(1, 2));
}
/// Argument `Flag` says whether the convolution is transposed.
template <size_t Flag>
int64_t convolution(const Call& call) {
  return call.flag(Flag) ? transposed_convolution(call) : plain_convolution(call);
}

/// (grad, input, weight, ...): the gradients of input and weight each take as many operations as
/// the forward.
template <size_t Flag>
int64_t convolution_backward(const Call& call) {
  const Sizes small = call.tensor(call.flag(Flag) ? 1 : 0);
  const int64_t one = convolution_of(small, call.tensor(2, 2));
  return times(one, int{call.computes(0)} + int{call.computes(1)});
}

// --- attention ----------------------------------------------------------------------------------

struct AttentionSizes {
  int64_t heads = 1;  ///< of all sequences
  int64_t queries = 0;
  int64_t keys = 0;
  int64_t head = 0;   ///< size of a query and of a key
  int64_t value = 0;  ///< size of a value

  /// The operations of this many products of scores with tensors of the size of a head, and with
  /// tensors of the size of a value.
  int64_t products(int64_t with_heads, int64_t with_values) const {
    const int64_t depth = plus(times(with_heads, head), times(with_values, value));
    return times(2, times(times(times(heads, queries), keys), depth));
  }
  /// Scores, and the weighted sum of values.
  int64_t forward() const { return products(1, 1); }
  /// Scores again, then gradients of scores and values, then of queries and keys.
  int64_t backward() const { return products(3, 2); }
};

/// [..., heads, length, size]. Several heads of queries may share a head of keys.
AttentionSizes heads_first(const Call& call, size_t query) {
  const Sizes q = call.tensor(query, 2);
  const Sizes k = call.tensor(query + 1, 2);
  const Sizes v = call.tensor(query + 2, 2);
  return {product({q.data(), q.size() - 2}), q[q.size() - 2], k[k.size() - 2], q.back(), v.back()};
}

/// [batch, length, heads, size]. If argument `ragged` is given, sequences are concatenated, and
/// argument `longest` is the length of the longest sequence of keys.
AttentionSizes length_first(const Call& call, size_t query, size_t ragged, size_t longest) {
  const Sizes q = call.tensor(query, 3);
  const Sizes k = call.tensor(query + 1, 3);
  const Sizes v = call.tensor(query + 2, 3);
  const size_t heads = q.size() - 2;
  const int64_t keys = k[k.size() - 3];
  AttentionSizes sizes{times(product({q.data(), heads - 1}), q[heads]), q[heads - 1], keys,
                       q.back(), v.back()};
  if (call.has(ragged)) sizes.keys = std::min(keys, call.integer(longest, keys));
  return sizes;
}

int64_t attention(const Call& call) { return heads_first(call, 0).forward(); }
int64_t attention_backward(const Call& call) { return heads_first(call, 1).backward(); }
int64_t flash(const Call& call) { return length_first(call, 0, 3, 6).forward(); }
int64_t flash_backward(const Call& call) { return length_first(call, 1, 6, 9).backward(); }
int64_t efficient(const Call& call) { return length_first(call, 0, 4, 7).forward(); }
int64_t efficient_backward(const Call& call) { return length_first(call, 1, 6, 9).backward(); }

// --- recurrent layers ---------------------------------------------------------------------------

/// Each row of each step is multiplied by each weight matrix once.
int64_t recurrent(const Call& call, std::span<const Sizes> weights) {
  const Sizes input = call.tensor(0, 1);
  int64_t elements = 0;
  for (const Sizes& weight : weights) {
    if (weight.size() >= 2) elements = plus(elements, product(weight));
  }
  return times(2, times(product({input.data(), input.size() - 1}), elements));
}

/// One layer and direction; the two matrices follow the input.
int64_t layer(const Call& call) {
  const Sizes weights[] = {call.tensor(1, 2), call.tensor(2, 2)};
  return recurrent(call, weights);
}
/// Gradients of input and of weights.
int64_t layer_backward(const Call& call) { return times(2, layer(call)); }

int64_t layers(const Call& call) { return recurrent(call, call.tensors(1)); }
int64_t layers_backward(const Call& call) {
  return times(layers(call), 1 + int{call.is_asked_for(3)});
}

// --- the table ----------------------------------------------------------------------------------

struct Row {
  std::string_view base_name;
  int64_t (*flops)(const Call&);
};

constexpr Row kRows[] = {
    {"aten::mm", dot_products<0>},
    {"aten::bmm", dot_products<0>},
    {"aten::mv", dot_products<0>},
    {"aten::dot", dot_products<0>},
    {"aten::vdot", dot_products<0>},
    {"aten::matmul", dot_products<0>},
    {"aten::linear", dot_products<0>},
    {"aten::mkldnn_linear", dot_products<0>},
    {"aten::_int_mm", dot_products<0>},
    {"aten::_scaled_mm", dot_products<0>},
    {"mkldnn::_linear_pointwise", dot_products<0>},
    {"antegrad::onednn_product", dot_products<0>},
    {"antegrad::biased_product", dot_products<0>},
    {"mkl::_mkl_linear", dot_products<0>},
    {"aten::addmm", dot_products<1>},
    {"aten::addmv", dot_products<1>},
    {"aten::baddbmm", dot_products<1>},
    {"aten::_addmm_activation", dot_products<1>},
    {"aten::addbmm", summed_batch},
    {"aten::addr", outer_product},
    {"aten::_grouped_mm", grouped_product},
    {"aten::_scaled_grouped_mm", grouped_product},
    {"aten::linear_backward", linear_backward},

    {"aten::_cdist_forward", distances<0, 1>},
    {"aten::_cdist_backward", distances<1, 2>},
    {"aten::_trilinear", trilinear},

    {"aten::convolution", convolution<6>},
    {"aten::_convolution", convolution<6>},
    {"aten::convolution_overrideable", convolution<6>},
    {"aten::cudnn_convolution", plain_convolution},
    {"aten::cudnn_convolution_relu", plain_convolution},
    {"aten::mkldnn_convolution", plain_convolution},
    {"aten::_slow_conv2d_forward", plain_convolution},
    {"aten::_conv_depthwise2d", plain_convolution},
    {"aten::conv_depthwise3d", plain_convolution},
    {"aten::cudnn_convolution_transpose", transposed_convolution},
    {"aten::slow_conv_transpose2d", transposed_convolution},
    {"aten::convolution_backward", convolution_backward<7>},
    {"aten::convolution_backward_overrideable", convolution_backward<6>},
    {"aten::_slow_conv2d_backward", convolution_backward<6>},  // argument 6 is a mask, not a flag

    {"aten::_scaled_dot_product_flash_attention_for_cpu", attention},
    {"antegrad::attention", attention},
    {"aten::_scaled_dot_product_flash_attention", attention},
    {"aten::_scaled_dot_product_efficient_attention", attention},
    {"aten::_scaled_dot_product_cudnn_attention", attention},
    {"aten::_scaled_dot_product_fused_attention_overrideable", attention},
    {"aten::_scaled_dot_product_attention_math", attention},
    {"aten::scaled_dot_product_attention", attention},
    {"aten::_scaled_dot_product_flash_attention_for_cpu_backward", attention_backward},
    {"antegrad::attention_backward", attention_backward},
    {"aten::_scaled_dot_product_flash_attention_backward", attention_backward},
    {"aten::_scaled_dot_product_efficient_attention_backward", attention_backward},
    {"aten::_scaled_dot_product_cudnn_attention_backward", attention_backward},
    {"aten::_scaled_dot_product_fused_attention_overrideable_backward", attention_backward},
    {"aten::_flash_attention_forward", flash},
    {"aten::_flash_attention_backward", flash_backward},
    {"aten::_efficient_attention_forward", efficient},
    {"aten::_efficient_attention_backward", efficient_backward},

    {"aten::mkldnn_rnn_layer", layer},
    {"aten::mkldnn_rnn_layer_backward", layer_backward},
    {"aten::_cudnn_rnn", layers},
    {"aten::_cudnn_rnn_backward", layers_backward},
};

const Row* row_of(std::string_view base_name) {
  static const auto* const rows = [] {
    auto* result = new std::unordered_map<std::string_view, const Row*>;
    for (const Row& row : kRows) result->emplace(row.base_name, &row);
    return result;
  }();
  const auto found = rows->find(base_name);
  return found == rows->end() ? nullptr : found->second;
}

}  // namespace

bool has_flops(std::string_view base_name) { return row_of(base_name) != nullptr; }

int64_t op_flops(const Graph& graph, const Node& node, const std::vector<int64_t>& symbols) {
  const Row* row = row_of(node.op.info().base_name);
  return row ? row->flops(Call(graph, node, symbols)) : 0;
}

}  // namespace antegrad
