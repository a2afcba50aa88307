#include "cost/rates.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <antegrad/error.h>

#include "cost/op_flops.h"

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

/// Of a convolution.
struct Form {
  bool one_by_one = false;
  bool channels_last = false;
};

Form form_of(const Graph& graph, const Node& node, bool backward) {
  const size_t image = backward ? 1 : 0;
  Form form;
  if (node.inputs.size() < image + 2 || !graph.is_tensor(node.inputs[image]) ||
      !graph.is_tensor(node.inputs[image + 1])) {
    return form;
  }
  const auto& x = graph.value(node.inputs[image]).meta;
  const auto& kernel = graph.value(node.inputs[image + 1]).meta;
  form.one_by_one = kernel.sizes.size() > 2 &&
                    std::all_of(kernel.sizes.begin() + 2, kernel.sizes.end(),
                                [](const IntExpr& size) { return size == IntExpr(1); });
  form.channels_last = x.strides.size() > 2 && x.strides[1] == IntExpr(1) &&
                       x.sizes[1] != IntExpr(1) && x.strides.back() != IntExpr(1);
  return form;
}

/// Attention under a causal mask computes half of what op_flops() counts.
bool is_causal(const Node& node) {
  const auto& names = node.op.info().arg_names;
  for (const char* name : {"is_causal", "causal"}) {
    const auto here = static_cast<size_t>(std::ranges::find(names, name) - names.begin());
    if (here < node.args.size() && node.args[here].is<bool>()) return node.args[here].as<bool>();
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
  return fmt::format("{} {}{}", kKernelKinds[static_cast<size_t>(kernel.kind)], name(kernel.dtype),
                     kernel.channels_last ? " channels_last" : "");
}

std::optional<KernelClass> kernel_class(const Graph& graph, const Node& node) {
  const OpTraits& traits = node.op.traits();
  if (traits.view || traits.uninitialized()) return std::nullopt;
  KernelClass kernel{kind_of(node), DType::f32, false};
  const auto dtype = dtype_of(graph, node);
  if (dtype && has_curves(*dtype)) {
    kernel.dtype = *dtype;
  } else if (counts_operations(kernel.kind)) {
    return std::nullopt;
  }
  if (kernel.kind == Kind::transfer) kernel.dtype = DType::f32;
  if (kernel.kind == Kind::convolution || kernel.kind == Kind::convolution_backward) {
    const bool backward = kernel.kind == Kind::convolution_backward;
    const Form form = form_of(graph, node, backward);
    kernel.channels_last = form.channels_last;
    if (form.one_by_one)
      kernel.kind = backward ? Kind::convolution_1x1_backward : Kind::convolution_1x1;
  }
  return kernel;
}

std::set<KernelClass> kernel_classes(const Graph& graph) {
  std::set<KernelClass> classes;
  for (const Node& node : graph.nodes) {
    const auto kernel = kernel_class(graph, node);
    if (!kernel) continue;
    classes.insert(*kernel);
    if (counts_operations(kernel->kind)) classes.insert({Kind::pointwise, kernel->dtype, false});
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
  const auto kernel = kernel_class(graph, node);
  if (!kernel || cost == NodeCost{}) return KernelTime{};
  const auto rate = rates.find(to_string(*kernel));
  if (rate == rates.end()) return std::nullopt;
  KernelTime time{rate->second.seconds(work(kernel->kind, node, cost)), rate->second.call_seconds};
  if (!counts_operations(kernel->kind)) return time;
  const auto moving = rates.find(to_string({Kind::pointwise, kernel->dtype, false}));
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
