#include "lower/aten_recipes.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>

#include <fmt/format.h>

#include "graph/split.h"
#include "lower/aten_reductions.h"

namespace antegrad::lower {
namespace {

/// How the arguments of an operator's schema become operands and numbers of a recipe. `arguments`
/// has one word for each argument:
///   NAME      an input or number of the recipe; a number may stand for an input
///   -NAME     the negated number
///   NAME=2    the same, if the argument is this number
///   =true     the argument must be this; "none" is an absent one
///   *         any argument
/// Of the rows of an operator, the first that fits counts.
struct AtenRow {
  std::string_view name;
  std::string_view recipe;
  std::string_view arguments;
};

constexpr AtenRow kRows[] = {
    {"aten::add.Tensor", "add", "x y alpha"},
    {"aten::add.Tensor", "add_number", "x s alpha"},
    {"aten::add.Tensor", "add_by", "x y alpha"},
    {"aten::add.Scalar", "add_number", "x s alpha"},
    {"aten::add.Scalar", "add", "x y alpha"},
    {"aten::sub.Tensor", "sub", "x y alpha"},
    {"aten::sub.Tensor", "add_number", "x s -alpha"},
    {"aten::sub.Scalar", "add_number", "x s -alpha"},
    {"aten::rsub.Tensor", "rsub", "x y alpha"},
    {"aten::rsub.Scalar", "rsub_number", "x s alpha"},
    {"aten::rsub.Scalar", "rsub", "x #y alpha"},
    {"aten::mul.Tensor", "mul", "x y"},
    {"aten::mul.Tensor", "mul_number", "x s"},
    {"aten::mul.Scalar", "mul_number", "x s"},
    {"aten::mul.Scalar", "mul", "x y"},
    {"aten::div.Tensor", "div", "x y"},
    {"aten::div.Tensor", "div_number", "x s"},
    {"aten::div.Scalar", "div_number", "x s"},
    {"aten::div.Scalar", "div", "x y"},
    {"aten::addcmul.default", "addcmul_1", "x y z =1"},
    {"aten::addcmul.default", "addcmul", "x y z value"},
    {"aten::addcmul.default", "addcmul_by", "x y z value"},
    {"aten::addcdiv.default", "addcdiv", "x y z value"},
    {"aten::addcdiv.default", "addcdiv_by", "x y z value"},
    {"aten::lerp.Scalar", "lerp_number", "x y w"},
    {"aten::lerp.Scalar", "lerp_by", "x y w"},
    {"aten::lerp.Tensor", "lerp", "x y w"},
    {"aten::pow.Tensor_Tensor", "pow", "x y"},
    {"aten::pow.Tensor_Scalar", "pow_half", "x =0.5"},
    {"aten::pow.Tensor_Scalar", "pow_minus_half", "x =-0.5"},
    {"aten::pow.Tensor_Scalar", "pow_2", "x =2"},
    {"aten::pow.Tensor_Scalar", "pow_3", "x =3"},
    {"aten::pow.Tensor_Scalar", "pow_minus_1", "x =-1"},
    {"aten::pow.Tensor_Scalar", "pow_minus_2", "x =-2"},
    {"aten::pow.Tensor_Scalar", "copy", "x =1"},
    {"aten::pow.Tensor_Scalar", "ones", "* =0"},
    {"aten::pow.Tensor_Scalar", "pow_number", "x e"},
    {"aten::clamp.default", "clamp", "x low high"},
    {"aten::clamp.default", "clamp_min", "x low =none"},
    {"aten::clamp.default", "clamp_max", "x =none high"},
    {"aten::clamp_min.default", "clamp_min", "x low"},
    {"aten::clamp_max.default", "clamp_max", "x high"},
    {"aten::eq.Tensor", "eq", "x y"},
    {"aten::ne.Tensor", "ne", "x y"},
    {"aten::lt.Tensor", "lt", "x y"},
    {"aten::le.Tensor", "le", "x y"},
    {"aten::gt.Tensor", "gt", "x y"},
    {"aten::ge.Tensor", "ge", "x y"},
    {"aten::eq.Scalar", "eq", "x #y"},
    {"aten::ne.Scalar", "ne", "x #y"},
    {"aten::lt.Scalar", "lt", "x #y"},
    {"aten::le.Scalar", "le", "x #y"},
    {"aten::gt.Scalar", "gt", "x #y"},
    {"aten::ge.Scalar", "ge", "x #y"},
    {"aten::bitwise_and.Tensor", "bitwise_and", "x y"},
    {"aten::bitwise_or.Tensor", "bitwise_or", "x y"},
    {"aten::bitwise_xor.Tensor", "bitwise_xor", "x y"},
    {"aten::bitwise_and.Scalar", "bitwise_and", "x #y"},
    {"aten::bitwise_or.Scalar", "bitwise_or", "x #y"},
    {"aten::bitwise_xor.Scalar", "bitwise_xor", "x #y"},
    {"aten::where.self", "where", "c x y"},
    {"aten::masked_fill.Scalar", "masked_fill", "x c value"},
    {"aten::sigmoid_backward.default", "sigmoid_backward", "g y"},
    {"aten::tanh_backward.default", "tanh_backward", "g y"},
    {"aten::threshold_backward.default", "threshold_backward", "g x threshold"},
    {"aten::leaky_relu.default", "leaky_relu", "x slope"},
    {"aten::leaky_relu_backward.default", "leaky_relu_backward", "g x slope =false"},
    {"aten::elu.default", "elu", "x alpha scale input_scale"},
    {"aten::elu_backward.default", "elu_backward", "g alpha scale input_scale =true y"},
    {"aten::elu_backward.default", "elu_backward_of_input", "g alpha scale input_scale =false x"},
    {"aten::gelu.default", "gelu", "x =none"},
    {"aten::gelu.default", "gelu_tanh", "x =tanh"},
    {"aten::gelu_backward.default", "gelu_backward", "g x =none"},
    {"aten::gelu_backward.default", "gelu_tanh_backward", "g x =tanh"},
    {"aten::silu_backward.default", "silu_backward", "g x"},
    {"aten::softplus.default", "softplus", "x beta threshold"},
    {"aten::softplus_backward.default", "softplus_backward", "g x beta threshold"},
    {"aten::mish_backward.default", "mish_backward", "g x"},
    {"aten::hardswish_backward.default", "hardswish_backward", "g x"},
    {"aten::hardsigmoid_backward.default", "hardsigmoid_backward", "g x"},
    {"aten::hardtanh_backward.default", "hardtanh_backward", "g x low high"},
    {"aten::mse_loss.default", "mse", "x y =0"},
    {"aten::mse_loss_backward.default", "mse_backward", "g x y norm"},
    {"aten::smooth_l1_loss_backward.default", "smooth_l1_backward", "g x y norm beta"},
    {"aten::huber_loss_backward.default", "huber_backward", "g x y norm delta"},
    {"aten::huber_loss.default", "huber", "x y =0 delta"},
    {"aten::hardtanh.default", "clamp", "x low high"},
    {"aten::smooth_l1_loss.default", "smooth_l1", "x y =0 beta"},
    {"aten::native_dropout_backward.default", "dropout_backward", "g m scale"},
    {"aten::_to_copy.default", "to", "x * * * * * *"},
    {"prims::convert_element_type.default", "to", "x *"},
    {"aten::clone.default", "copy", "x *"},
    {"antegrad::restride.default", "copy", "x *"},
    {"aten::copy.default", "to", "* x *"},
    {"aten::full.default", "fill", "* x * * * *"},
    {"aten::full_like.default", "fill", "* x * * * * *"},
    {"aten::scalar_tensor.default", "fill", "x * * * *"},
    {"aten::zeros.default", "zeros", "* * * * *"},
    {"aten::zeros_like.default", "zeros", "* * * * * *"},
    {"aten::new_zeros.default", "zeros", "* * * * * *"},
    {"aten::ones.default", "ones", "* * * * *"},
    {"aten::ones_like.default", "ones", "* * * * * *"},
    {"aten::new_full.default", "fill", "* * x * * * *"},
    {"aten::new_ones.default", "ones", "* * * * * *"},
    {"aten::fill.Scalar", "fill", "* x"},
    {"aten::arange.default", "arange", "end * * * *"},
    {"aten::arange.start", "arange", "start end * * * *"},
    {"aten::arange.start_step", "arange", "start end step * * * *"},
};

/// Operators of one tensor that have the name of their recipe.
constexpr std::string_view kUnary[] = {
    "reciprocal",  "neg",        "abs",     "sign",  "floor", "ceil",      "trunc",
    "round",       "sqrt",       "rsqrt",   "relu",  "isnan", "exp",       "exp2",
    "expm1",       "log",        "log2",    "log10", "log1p", "sin",       "cos",
    "tan",         "asin",       "acos",    "atan",  "tanh",  "erf",       "erfc",
    "sinh",        "cosh",       "sigmoid", "silu",  "mish",  "hardswish", "hardsigmoid",
    "logical_not", "bitwise_not"};
/// Operators of two tensors that have the name of their recipe.
constexpr std::string_view kBinary[] = {"maximum",     "minimum",    "atan2",      "logaddexp",
                                        "logical_and", "logical_or", "logical_xor"};

/// A number that is known when the kernel is made.
std::optional<double> number_of(const attr::Scalar& scalar) {
  return std::visit(
      [](const auto& value) -> std::optional<double> {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, IntExpr>) {
          const auto known = value.maybe_constant();
          // A float64 holds these exactly.
          if (!known || *known > (int64_t{1} << 53) || *known < -(int64_t{1} << 53)) return {};
          return static_cast<double>(*known);
        } else if constexpr (std::is_same_v<T, std::complex<double>>) {
          return {};
        } else {
          return static_cast<double>(value);
        }
      },
      scalar.value);
}

std::optional<double> number_of(const Attr& argument) {
  if (argument.is<attr::Scalar>()) return number_of(argument.as<attr::Scalar>());
  if (argument.is<attr::WrappedNumber>()) {
    return number_of(argument.as<attr::WrappedNumber>().value);
  }
  if (argument.is<double>()) return argument.as<double>();
  if (argument.is<bool>()) return argument.as<bool>() ? 1 : 0;
  if (argument.is<IntExpr>()) return number_of(attr::Scalar{argument.as<IntExpr>()});
  return {};
}

/// f64, i64 or bool.
DType type_of_number(const attr::Scalar& scalar) {
  if (std::holds_alternative<bool>(scalar.value)) return DType::boolean;
  return std::holds_alternative<double>(scalar.value) ? DType::f64 : DType::i64;
}

DType type_of_number(const Attr& argument) {
  if (argument.is<attr::Scalar>()) return type_of_number(argument.as<attr::Scalar>());
  if (argument.is<attr::WrappedNumber>()) {
    return type_of_number(argument.as<attr::WrappedNumber>().value);
  }
  if (argument.is<bool>()) return DType::boolean;
  return argument.is<double>() ? DType::f64 : DType::i64;
}

bool is_this(const Attr& argument, std::string_view expected) {
  if (argument.is<std::string>()) return argument.as<std::string>() == expected;
  if (argument.is<bool>()) return expected == (argument.as<bool>() ? "true" : "false");
  if (argument.is<attr::None>()) return expected == "none";
  const auto number = number_of(argument);
  return number && fmt::format("{}", *number) == expected;
}

/// The call by one row, or nothing if its arguments do not fit.
std::optional<RecipeCall> bound(const Node& node, const Recipe& recipe,
                                std::string_view arguments) {
  const auto words = split(arguments, ' ');
  if (words.size() != node.args.size()) return {};
  RecipeCall call{&recipe, std::vector<RecipeOperand>(recipe.inputs.size()),
                  std::vector<double>(recipe.numbers.size())};
  size_t next = 0;
  for (size_t i = 0; i < words.size(); ++i) {
    const Attr& argument = node.args[i];
    const bool tensor = argument.is<attr::Input>();
    const size_t input = next;
    next += static_cast<size_t>(argument.input_count());
    std::string_view word = words[i];
    if (word == "*") continue;
    if (word.front() == '=') {
      if (!is_this(argument, word.substr(1))) return {};
      continue;
    }
    const bool negated = word.front() == '-';
    const bool in_place_of_tensor = word.front() == '#';
    if (negated || in_place_of_tensor) word.remove_prefix(1);
    const auto operand = std::ranges::find(recipe.inputs, word, &RecipeInput::name);
    if (operand != recipe.inputs.end()) {
      RecipeOperand& into = call.operands[operand - recipe.inputs.begin()];
      if (tensor == in_place_of_tensor) return {};
      if (tensor) {
        into.value = node.inputs[input];
      } else if (const auto number = number_of(argument)) {
        into.number = *number;
        into.number_type = type_of_number(argument);
      } else {
        return {};
      }
      continue;
    }
    const auto number = number_of(argument);
    const auto place = std::ranges::find(recipe.numbers, word);
    if (!number || place == recipe.numbers.end()) return {};
    call.numbers[place - recipe.numbers.begin()] = negated ? -*number : *number;
  }
  return call;
}

bool is_single_tensor(const Graph& graph, const Node& node) {
  return node.outputs.size() == 1 && graph.is_tensor(node.outputs[0]);
}

/// A recipe that names operands and numbers only.
Recipe form(std::vector<RecipeInput> inputs, std::vector<std::string> numbers) {
  Recipe recipe;
  recipe.inputs = std::move(inputs);
  recipe.numbers = std::move(numbers);
  return recipe;
}

/// Numbers at equal distances, where they and their products are exact in the result's type.
std::optional<RecipeCall> range(const Graph& graph, const Node& node, std::string_view arguments) {
  static const Recipe numbers = form({}, {"start", "end", "step"});
  const auto call = bound(node, numbers, arguments);
  if (!call) return {};
  const double start = call->numbers[0];
  const double step = arguments.find("step") == std::string_view::npos ? 1 : call->numbers[2];
  const TensorMeta& meta = graph.value(node.outputs[0]).meta;
  const double last = start + step * static_cast<double>(numel(meta).constant());
  const double most = std::max({std::abs(start), std::abs(last), std::abs(step)});
  const DType type = meta.dtype;
  const double exact = type == DType::f32   ? 0x1p24
                       : type == DType::f64 ? 0x1p53
                       : type == DType::i64 ? 0x1p53
                       : type == DType::i32 ? 0x1p31
                                            : 0;
  if (start != std::trunc(start) || step != std::trunc(step) || most >= exact) return {};
  return RecipeCall{nullptr, {}, {start, step}};
}

/// Copies, conversions and fills: what they compute is said by the types of the tensors.
std::optional<RecipeCall> special(const Graph& graph, const Node& node, std::string_view kind,
                                  std::string_view arguments) {
  static const Recipe operand = form({{"x", {}}}, {});
  static const Recipe filled = form({}, {"x"});
  if (kind == "fill" || kind == "zeros" || kind == "ones") {
    const auto call = bound(node, filled, arguments);
    if (!call) return {};
    const double number = kind == "fill" ? call->numbers[0] : kind == "ones" ? 1 : 0;
    return RecipeCall{nullptr, {{kNoValue, number, DType::f64}}, {}};
  }
  if (kind == "arange") return range(graph, node, arguments);
  auto call = bound(node, operand, arguments);
  if (!call) return {};
  call->recipe = nullptr;
  const DType to = graph.value(node.outputs[0]).meta.dtype;
  const DType from = graph.value(call->operands[0].value).meta.dtype;
  if (from == to) return call;
  call->recipe = kind == "to" ? find_recipe(fmt::format("to_{}", name(to))) : nullptr;
  return call->recipe == nullptr ? std::nullopt : call;
}

/// gelu and its gradient run oneDNN's code where that has the type and the tensors are contiguous.
/// ATen's own is more accurate in f32; in other types Level::close has one formula. A single
/// element, the largest one, shows what that loses in halves.
std::string choose_gelu(const Graph& graph, const EagerCpu& cpu, Level level, RecipeCall& call) {
  const auto meta = [&](const RecipeOperand& operand) -> const TensorMeta& {
    return graph.value(operand.value).meta;
  };
  const DType type = meta(call.operands[0]).dtype;
  const auto contiguous = std::ranges::count_if(
      call.operands, [&](const RecipeOperand& x) { return is_contiguous(meta(x)); });
  const bool all_contiguous = contiguous == std::ssize(call.operands);
  // Of the gradient's operands, x decides, the last one.
  const bool several = numel(meta(call.operands.back())).constant() > 1;
  if (level == Level::close) {
    if (type == DType::f64 || (type != DType::f32 && several)) return "";
  } else if (cpu.onednn == OneDnn::unknown) {
    return "for which instructions oneDNN runs is not known";
  } else if (contiguous != 0 && !all_contiguous) {
    return "only one of its operands is contiguous, and which code ATen runs then is not known";
  } else if (type == DType::f16 && cpu.onednn >= OneDnn::avx512 && all_contiguous) {
    return "oneDNN may compute it in f16";  // in instructions of newer CPUs
  }
  const bool has_type = type == DType::f32 || (type == DType::bf16 && cpu.onednn >= OneDnn::avx512);
  const bool onednn = cpu.onednn != OneDnn::off && has_type && all_contiguous && several;
  if (!onednn) call.recipe = find_recipe(call.recipe->name + "_native");
  return "";
}

/// What the gradient of a loss multiplies with before a mean; 0 for what is no such gradient.
double slope_of_loss(std::string_view recipe) {
  if (recipe == "mse_backward") return 2;
  return recipe == "smooth_l1_backward" || recipe == "huber_backward" ? 1 : 0;
}

/// Recipes with a number of the call hold for operands that are not constant.
bool is_by_number_of_others(const Graph& graph, const Node& node, const RecipeCall& call) {
  const bool by_number = std::ranges::any_of(
      number_recipes(), [&](const Recipe& recipe) { return &recipe == call.recipe; });
  if (!by_number) return true;
  const auto& sizes = graph.value(node.outputs[0]).meta.sizes;
  const auto operands = std::span(call.operands);
  return numel(graph.value(operands.back().value).meta).maybe_constant() == 1 &&
         std::ranges::all_of(operands.first(operands.size() - 1), [&](const RecipeOperand& x) {
           const TensorMeta& meta = graph.value(x.value).meta;
           return meta.sizes == sizes && std::ranges::count(meta.strides, IntExpr(0)) == 0;
         });
}

/// Some recipes are those of one device alone.
bool has_rows(const Recipe& recipe, Capability capability, Level level) {
  if (level == Level::close) capability = c_target(capability).formulas;
  return std::ranges::any_of(recipe.rows, [&](const RecipeRow& row) {
    return std::ranges::find(row.capabilities, capability) != row.capabilities.end();
  });
}

std::variant<RecipeCall, std::string> finished(const Graph& graph, const EagerCpu& cpu, Level level,
                                               RecipeCall call) {
  if (call.recipe == nullptr) return call;
  const bool gelu = call.recipe->name == "gelu" || call.recipe->name == "gelu_backward";
  if (gelu) {
    std::string reason = choose_gelu(graph, cpu, level, call);
    if (!reason.empty()) return reason;
  }
  if (const double slope = slope_of_loss(call.recipe->name); slope != 0) {
    // The argument is the reduction: 0 none, 1 mean, 2 sum.
    const bool mean = call.numbers[0] == 1;
    const int64_t count = numel(graph.value(call.operands[1].value).meta).constant();
    call.numbers[0] = mean ? slope / static_cast<double>(count) : slope;
  }
  return call;
}

}  // namespace

std::variant<RecipeCall, std::string> recipe_call(const Graph& graph, const Node& node,
                                                  const EagerCpu& cpu, Level level) {
  const std::string& name = node.op.name();
  if (node.tokens > 0) return name + " draws random numbers or has an effect";
  if (auto reduction = reduction_call(graph, node, cpu, level)) return std::move(*reduction);
  if (is_of_windows(name)) {
    auto window = window_call(graph, node);
    if (const auto* reason = std::get_if<std::string>(&window)) return *reason;
    RecipeCall call;
    call.window = std::get<WindowCall>(window);
    return call;
  }
  if (!is_single_tensor(graph, node)) return name + " has other results than one tensor";
  if (is_gather(name)) {
    auto call = gather_call(graph, node);
    if (const auto* reason = std::get_if<std::string>(&call)) return *reason;
    return RecipeCall{nullptr, {}, {}, std::get<GatherCall>(std::move(call))};
  }
  if (is_made_of_parts(name)) {
    auto parts = parts_call(graph, node);
    if (const auto* reason = std::get_if<std::string>(&parts)) return *reason;
    RecipeCall call;
    call.parts = std::get<PartsCall>(parts);
    for (const ValueId part : node.inputs) call.operands.push_back({part});
    return call;
  }
  bool known = false;
  for (const AtenRow& row : kRows) {
    if (row.name != name) continue;
    known = true;
    const Recipe* recipe = find_recipe(row.recipe);
    if (recipe != nullptr && !has_rows(*recipe, cpu.capability, level)) continue;
    auto call = recipe == nullptr ? special(graph, node, row.recipe, row.arguments)
                                  : bound(node, *recipe, row.arguments);
    if (call && is_by_number_of_others(graph, node, *call)) {
      return finished(graph, cpu, level, std::move(*call));
    }
  }
  for (const auto& [names, arguments] :
       {std::pair(std::span<const std::string_view>(kUnary), std::string_view("x")),
        std::pair(std::span<const std::string_view>(kBinary), std::string_view("x y"))}) {
    for (const std::string_view recipe : names) {
      if (name != fmt::format("aten::{}.default", recipe)) continue;
      known = true;
      if (auto call = bound(node, *find_recipe(recipe), arguments)) {
        return finished(graph, cpu, level, std::move(*call));
      }
    }
  }
  if (known) return name + " has arguments for which there is no recipe";
  return name + " has no recipe";
}

}  // namespace antegrad::lower
