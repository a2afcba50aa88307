#include "graph/op_traits_table.h"

namespace antegrad {
namespace {

// aten operators whose output element i depends on elements i of the broadcast inputs. The second
// column names the overloads of `name_` that take the same arguments as the functional form.
constexpr PointwiseRow kPointwiseRows[] = {
    // Arithmetic.
    {"add", "Tensor Scalar"},
    {"sub", "Tensor Scalar"},
    {"rsub"},
    {"mul", "Tensor Scalar"},
    {"div", "Tensor Tensor_mode Scalar Scalar_mode"},
    {"floor_divide", "Scalar"},
    {"remainder", "Scalar Tensor"},
    {"fmod", "Scalar Tensor"},
    {"neg", "default"},
    {"reciprocal", "default"},
    {"pow"},
    {"float_power"},
    {"square", "default"},
    {"sqrt", "default"},
    {"rsqrt", "default"},
    {"exp", "default"},
    {"exp2", "default"},
    {"expm1", "default"},
    {"log", "default"},
    {"log2", "default"},
    {"log10", "default"},
    {"log1p", "default"},
    {"logaddexp"},
    {"logaddexp2"},
    {"xlogy", "Tensor Scalar_Other"},
    {"addcmul", "default"},
    {"addcdiv", "default"},
    {"lerp", "Scalar Tensor"},
    {"abs", "default"},
    {"sgn", "default"},
    {"sign", "default"},
    {"signbit"},
    {"ceil", "default"},
    {"floor", "default"},
    {"round", "default decimals"},
    {"trunc", "default"},
    {"frac", "default"},
    {"clamp", "default Tensor"},
    {"clamp_min", "default Tensor"},
    {"clamp_max", "default Tensor"},
    {"maximum"},
    {"minimum"},
    {"fmax"},
    {"fmin"},
    {"copysign", "Tensor Scalar"},
    {"nextafter", "default"},
    {"ldexp"},
    {"frexp"},
    {"hypot", "default"},
    {"heaviside", "default"},
    {"gcd", "default"},
    {"lcm", "default"},
    {"nan_to_num", "default"},
    {"rad2deg", "default"},
    {"deg2rad", "default"},
    // Trigonometric and special functions.
    {"sin", "default"},
    {"cos", "default"},
    {"tan", "default"},
    {"asin", "default"},
    {"acos", "default"},
    {"atan", "default"},
    {"atan2", "default"},
    {"sinh", "default"},
    {"cosh", "default"},
    {"tanh", "default"},
    {"asinh", "default"},
    {"acosh", "default"},
    {"atanh", "default"},
    {"sinc", "default"},
    {"erf", "default"},
    {"erfc", "default"},
    {"erfinv", "default"},
    {"lgamma", "default"},
    {"digamma", "default"},
    {"polygamma"},
    {"mvlgamma", "default"},
    {"igamma", "default"},
    {"igammac", "default"},
    {"i0", "default"},
    {"special_i0e"},
    {"special_i1"},
    {"special_i1e"},
    {"special_entr"},
    {"special_ndtri"},
    {"special_log_ndtr"},
    {"special_erfcx"},
    {"special_xlog1py"},
    {"special_zeta"},
    {"special_bessel_j0"},
    {"special_bessel_j1"},
    {"special_bessel_y0"},
    {"special_bessel_y1"},
    {"special_modified_bessel_i0"},
    {"special_modified_bessel_i1"},
    {"special_modified_bessel_k0"},
    {"special_modified_bessel_k1"},
    {"special_airy_ai"},
    // Complex numbers.
    {"angle"},
    {"conj_physical", "default"},
    {"_conj_physical"},
    {"complex"},
    {"polar"},
    // Comparison, logic, bits, choice.
    {"eq", "Scalar Tensor"},
    {"ne", "Scalar Tensor"},
    {"lt", "Scalar Tensor"},
    {"le", "Scalar Tensor"},
    {"gt", "Scalar Tensor"},
    {"ge", "Scalar Tensor"},
    {"isnan"},
    {"isinf"},
    {"isposinf"},
    {"isneginf"},
    {"logical_and", "default"},
    {"logical_or", "default"},
    {"logical_xor", "default"},
    {"logical_not", "default"},
    {"bitwise_and", "Scalar Tensor"},
    {"bitwise_or", "Scalar Tensor"},
    {"bitwise_xor", "Scalar Tensor"},
    {"bitwise_not", "default"},
    {"bitwise_left_shift", "Tensor Tensor_Scalar"},
    {"bitwise_right_shift", "Tensor Tensor_Scalar"},
    {"__lshift__"},
    {"__rshift__"},
    {"where"},
    {"masked_fill", "Scalar Tensor"},
    // Activations.
    {"relu", "default"},
    {"relu6", "default"},
    {"hardtanh", "default"},
    {"hardsigmoid", "default"},
    {"hardswish", "default"},
    {"hardshrink"},
    {"softshrink"},
    {"leaky_relu", "default"},
    {"elu", "default"},
    {"celu", "default"},
    {"selu", "default"},
    {"gelu", "default"},
    {"silu", "default"},
    {"mish", "default"},
    {"sigmoid", "default"},
    {"log_sigmoid_forward"},
    {"softplus"},
    {"threshold", "default"},
    {"logit", "default"},
    {"_prelu_kernel"},
    {"rrelu_with_noise_backward"},
    // Backward of activations and of pointwise losses.
    {"threshold_backward"},
    {"hardtanh_backward"},
    {"hardsigmoid_backward"},
    {"hardswish_backward"},
    {"hardshrink_backward"},
    {"softshrink_backward"},
    {"leaky_relu_backward"},
    {"elu_backward"},
    {"gelu_backward"},
    {"silu_backward"},
    {"mish_backward"},
    {"sigmoid_backward"},
    {"tanh_backward"},
    {"log_sigmoid_backward"},
    {"softplus_backward"},
    {"logit_backward"},
    {"_prelu_kernel_backward"},
    {"native_dropout_backward"},
    {"mse_loss_backward"},
    {"smooth_l1_loss_backward"},
    {"huber_loss_backward"},
    {"binary_cross_entropy_backward"},
    {"soft_margin_loss_backward"},
    // Copies and casts.
    {"clone", "", kNoOp},
    {"_to_copy", "", kNoOp},
    {"copy", "default"},
    {"fill", "Scalar Tensor"},
    {"zero", "", kMetaOnly},
};

struct RenamedInplace {
  std::string_view base_name;
  std::string_view overload;
  std::string_view inplace_name;
};

// In-place forms whose overload has another name than the functional one.
constexpr RenamedInplace kRenamedInplace[] = {
    {"aten::pow", "Tensor_Tensor", "aten::pow_.Tensor"},
    {"aten::pow", "Tensor_Scalar", "aten::pow_.Scalar"},
    {"aten::float_power", "Tensor_Tensor", "aten::float_power_.Tensor"},
    {"aten::float_power", "Tensor_Scalar", "aten::float_power_.Scalar"},
    {"aten::floor_divide", "default", "aten::floor_divide_.Tensor"},
};

bool lists(std::string_view words, std::string_view word) {
  while (!words.empty()) {
    const size_t blank = words.find(' ');
    if (words.substr(0, blank) == word) return true;
    if (blank == std::string_view::npos) return false;
    words.remove_prefix(blank + 1);
  }
  return false;
}

}  // namespace

std::span<const PointwiseRow> pointwise_rows() { return kPointwiseRows; }

std::string builtin_inplace_name(std::string_view base_name, std::string_view overload) {
  for (const RenamedInplace& row : kRenamedInplace) {
    if (row.base_name == base_name && row.overload == overload)
      return std::string(row.inplace_name);
  }
  constexpr std::string_view kAten = "aten::";
  if (!base_name.starts_with(kAten)) return {};
  for (const PointwiseRow& row : kPointwiseRows) {
    if (row.base_name != base_name.substr(kAten.size())) continue;
    if (!lists(row.inplace_overloads, overload)) return {};
    return std::string(base_name) + "_." + std::string(overload);
  }
  return {};
}

}  // namespace antegrad
