#include "cost/rates.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <antegrad/error.h>

#include "cost/op_flops.h"
#include "cost/saturating.h"

namespace antegrad {
namespace {

using Kind = KernelKind;

/// Operators by a part of their base names. The first row that fits decides. Operators in no row
/// are products if they have operations, draws, reductions, and otherwise pointwise.
constexpr std::pair<std::string_view, KernelKind> kKinds[] = {
    {"batch_norm_backward", Kind::batch_norm_backward},
    {"batch_norm", Kind::batch_norm},
    {"layer_norm_backward", Kind::layer_norm_backward},
    {"group_norm_backward", Kind::layer_norm_backward},
    {"layer_norm", Kind::layer_norm},
    {"group_norm", Kind::layer_norm},
    {"softmax", Kind::softmax},
    {"attention", Kind::attention},
    {"convolution_backward", Kind::convolution_backward},
    {"conv2d_backward", Kind::convolution_backward},
    {"convolution", Kind::convolution},
    {"_conv", Kind::convolution},
    {"conv_", Kind::convolution},
    {"::gelu", Kind::transcendental},
    {"::tanh", Kind::transcendental},
    {"::sigmoid", Kind::transcendental},
    {"::log_sigmoid", Kind::transcendental},
    {"::silu", Kind::transcendental},
    {"::mish", Kind::transcendental},
    {"::elu", Kind::transcendental},
    {"::softplus", Kind::transcendental},
    {"::exp", Kind::transcendental},
    {"::log", Kind::transcendental},
    {"::erf", Kind::transcendental},
    {"::sin", Kind::transcendental},
    {"::cos", Kind::transcendental},
    {"::pow", Kind::transcendental},
    {"::inductor_random", Kind::draw},
    {"::inductor_randint", Kind::draw},
};
/// Begin like a row of the table, and are others.
constexpr std::string_view kPointwise[] = {"aten::expand", "aten::logical", "aten::tanh_backward",
                                           "aten::sigmoid_backward"};

KernelKind kind_of(const Node& node) {
  const OpTraits& traits = node.op.traits();
  const std::string_view name = node.op.info().base_name;
  const auto begins = [&](std::string_view start) { return name.starts_with(start); };
  if (traits.leaves_device) return Kind::transfer;
  if (std::ranges::any_of(kPointwise, begins)) return Kind::pointwise;
  for (const auto& [part, kind] : kKinds) {
    if (name.find(part) != std::string_view::npos) return kind;
  }
  if (has_flops(name)) return Kind::product;
  if (traits.random) return Kind::draw;
  return traits.reduction ? Kind::reduction : Kind::pointwise;
}

bool has_curves(DType dtype) {
  return dtype == DType::f64 || dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}

/// Of the first floating-point tensor that the node reads or makes.
std::optional<DType> dtype_of(const Graph& graph, const Node& node) {
  for (const auto* list : {&node.inputs, &node.outputs}) {
    for (const ValueId id : *list) {
      if (graph.is_tensor(id) && is_floating(graph.value(id).meta.dtype)) {
        return graph.value(id).meta.dtype;
      }
    }
  }
  return std::nullopt;
}

/// The argument of this name if it has this type, or null.
template <class T>
const T* argument(const Node& node, std::string_view name) {
  const auto& names = node.op.info().arg_names;
  const auto here = static_cast<size_t>(std::ranges::find(names, name) - names.begin());
  return here < node.args.size() && node.args[here].is<T>() ? &node.args[here].as<T>() : nullptr;
}

bool is_number(const IntExpr& size, int64_t number) { return size == IntExpr(number); }

bool all_ones(std::span<const IntExpr> numbers) {
  return std::ranges::all_of(numbers, [](const IntExpr& each) { return is_number(each, 1); });
}

/// Whether planes of an image start at multiples of 16 bytes. True for symbolic sizes.
bool is_aligned(std::span<const IntExpr> plane, DType dtype) {
  int64_t bytes = byte_size(dtype);
  for (const IntExpr& size : plane) bytes = times(bytes, size.maybe_constant().value_or(16));
  return bytes % 16 == 0;
}

void classify_convolution(const Graph& graph, const Node& node, KernelClass& kernel) {
  const bool backward = kernel.kind == Kind::convolution_backward;
  const size_t image = backward ? 1 : 0;
  if (node.inputs.size() < image + 2 || !graph.is_tensor(node.inputs[image]) ||
      !graph.is_tensor(node.inputs[image + 1])) {
    return;
  }
  const auto& x = graph.value(node.inputs[image]).meta;
  const auto& weight = graph.value(node.inputs[image + 1]).meta;
  if (x.sizes.size() < 3 || weight.sizes.size() < 3) return;
  const auto plane = std::span(x.sizes).subspan(2);
  kernel.channels_last =
      is_number(x.strides[1], 1) && !is_number(x.sizes[1], 1) && !is_number(x.strides.back(), 1);
  if (x.sizes[1].maybe_constant().value_or(64) <= 4) kernel.form = KernelForm::thin;
  if (!all_ones(std::span(weight.sizes).subspan(2))) return;
  kernel.kind = backward ? Kind::convolution_1x1_backward : Kind::convolution_1x1;
  const auto* stride = argument<Shape>(node, "stride");
  if (stride != nullptr && !all_ones(*stride)) {
    kernel.form = KernelForm::strided;
  } else if (!kernel.channels_last && !is_aligned(plane, x.dtype)) {
    kernel.form = KernelForm::unaligned;
  }
}

/// Between the forms with more and with fewer channels.
WeighedClasses classify_batch_norm(const Graph& graph, const Node& node, KernelClass kernel) {
  constexpr std::pair<double, KernelForm> kForms[] = {{64, KernelForm::channels_64},
                                                      {256, KernelForm::channels_256},
                                                      {1024, KernelForm::channels_1024}};
  double channels = 256;
  if (!node.inputs.empty() && graph.is_tensor(node.inputs[0])) {
    const Shape& sizes = graph.value(node.inputs[0]).meta.sizes;
    if (sizes.size() > 1) channels = static_cast<double>(sizes[1].maybe_constant().value_or(256));
  }
  channels = std::clamp(channels, kForms[0].first, std::end(kForms)[-1].first);
  const auto* above =
      std::ranges::find_if(kForms, [&](auto& row) { return row.first >= channels; });
  kernel.form = above->second;
  if (above->first == channels) return {{kernel, 1}};
  const auto* below = above - 1;
  const double part = std::log(channels / below->first) / std::log(above->first / below->first);
  KernelClass fewer = kernel;
  fewer.form = below->second;
  return {{fewer, 1 - part}, {kernel, part}};
}

/// Attention under a causal mask computes half of what op_flops() counts.
bool is_causal(const Node& node) {
  for (const char* name : {"is_causal", "causal"}) {
    if (const auto* causal = argument<bool>(node, name)) return *causal;
  }
  return false;
}

double work(KernelKind kind, const Node& node, const NodeCost& cost) {
  if (kind == Kind::attention && is_causal(node)) return static_cast<double>(cost.flops) / 2;
  if (counts_operations(kind)) return static_cast<double>(cost.flops);
  return static_cast<double>(kind == Kind::transfer ? cost.host_bytes : cost.bytes);
}

}  // namespace

std::string to_string(const KernelClass& kernel) {
  auto text = fmt::format("{} {}{}", kKernelKinds[static_cast<size_t>(kernel.kind)],
                          name(kernel.dtype), kernel.channels_last ? " channels_last" : "");
  if (kernel.form != KernelForm::usual) {
    text += fmt::format(" {}", kKernelForms[static_cast<size_t>(kernel.form)]);
  }
  return text;
}

WeighedClasses kernel_classes(const Graph& graph, const Node& node) {
  const OpTraits& traits = node.op.traits();
  if (traits.view || traits.uninitialized()) return {};
  KernelClass kernel{kind_of(node)};
  const auto dtype = dtype_of(graph, node);
  if (dtype && has_curves(*dtype)) {
    kernel.dtype = *dtype;
  } else if (counts_operations(kernel.kind)) {
    return {};
  }
  switch (kernel.kind) {
    case Kind::transfer: kernel.dtype = DType::f32; break;
    case Kind::convolution:
    case Kind::convolution_backward: classify_convolution(graph, node, kernel); break;
    case Kind::batch_norm:
    case Kind::batch_norm_backward: return classify_batch_norm(graph, node, kernel);
    default: break;
  }
  return {{kernel, 1}};
}

std::set<KernelClass> kernel_classes(const Graph& graph) {
  std::set<KernelClass> classes;
  for (const Node& node : graph.nodes) {
    for (const auto& [kernel, share] : kernel_classes(graph, node)) {
      classes.insert(kernel);
      if (counts_operations(kernel.kind)) classes.insert({Kind::pointwise, kernel.dtype});
    }
  }
  return classes;
}

double Rate::seconds(double amount) const {
  const auto above =
      std::ranges::find_if(points, [&](const auto& point) { return point.first >= amount; });
  if (above == points.begin()) return above->second;
  const auto& below = *(above - 1);
  if (above == points.end()) return below.second * amount / below.first;
  const double part = std::log(amount / below.first) / std::log(above->first / below.first);
  return below.second * std::pow(above->second / below.second, part);
}

std::optional<KernelTime> kernel_time(const Graph& graph, const Node& node,
                                      const std::vector<int64_t>& symbols, const Rates& rates) {
  if (rates.empty()) return std::nullopt;
  const NodeCost cost = node_cost(graph, node, symbols);
  const auto classes = kernel_classes(graph, node);
  if (classes.empty() || cost == NodeCost{}) return KernelTime{};
  KernelTime time{1, 0};
  for (const auto& [kernel, share] : classes) {
    const auto rate = rates.find(to_string(kernel));
    if (rate == rates.end()) return std::nullopt;
    time.seconds *= std::pow(rate->second.seconds(work(kernel.kind, node, cost)), share);
    time.call_seconds += share * rate->second.call_seconds;
  }
  const KernelClass& kernel = classes.front().first;
  if (!counts_operations(kernel.kind)) return time;
  const auto moving = rates.find(to_string({Kind::pointwise, kernel.dtype}));
  if (moving == rates.end()) return time;
  time.seconds = std::max(time.seconds, moving->second.seconds(static_cast<double>(cost.bytes)));
  return time;
}

void to_json(nlohmann::json& object, const Rate& rate) {
  object = {{"call", rate.call_seconds}, {"points", rate.points}};
}

void from_json(const nlohmann::json& object, Rate& rate) {
  object.at("call").get_to(rate.call_seconds);
  object.at("points").get_to(rate.points);
  bool valid = !rate.points.empty() && rate.call_seconds >= 0 && rate.call_seconds < 1;
  std::pair<double, double> last = {0, 0};
  for (const auto& point : rate.points) {
    valid = valid && point.first > last.first && point.second >= last.second && point.second > 0 &&
            point.first < 1e18 && point.second < 1e3;
    last = point;
  }
  if (!valid) {
    throw GraphError(
        ErrorText{"a curve of seconds that rise with work", object.dump(), "measure it again"});
  }
}

}  // namespace antegrad
