#include "graph/op_traits_table.h"

namespace antegrad {
namespace {

// Attention that draws nothing if its probability of dropout, that argument, is 0.
constexpr OpRow attention(std::string_view name, int32_t dropout) {
  return {.name = name, .traits = kCompute | kRandom, .draws_nothing = {.if_zero = dropout}};
}

// Operators that compute much for each element: products, convolutions, recurrent cells, attention.
constexpr OpRow kComputeRows[] = {
    // Matrix products, convolutions, recurrent cells.
    {"mm", kCompute | kBlas},
    {"bmm", kCompute | kBlas},
    {"mv", kCompute},
    {"dot", kCompute},
    {"vdot", kCompute},
    {"addmm", kCompute | kBlas},
    {"addmv", kCompute},
    {"addr", kCompute},
    {"baddbmm", kCompute | kBlas},
    {"addbmm", kCompute},
    {"matmul", kCompute},
    {"linear", kCompute},
    {"linear_backward", kCompute},
    {"_addmm_activation", kCompute},
    {"_scaled_mm", kCompute},
    {"_int_mm", kCompute},
    {"_grouped_mm", kCompute},
    {"_trilinear", kCompute},
    {"_cdist_forward", kCompute},
    {"_cdist_backward", kCompute},
    {"convolution", kCompute},
    {"convolution_backward", kCompute},
    {"convolution_overrideable", kCompute},
    {"convolution_backward_overrideable", kCompute},
    {"_convolution", kCompute},
    {"cudnn_convolution", kCompute},
    {"cudnn_convolution_transpose", kCompute},
    {"cudnn_convolution_relu", kCompute},
    {"mkldnn_convolution", kCompute},
    {"_slow_conv2d_forward", kCompute},
    {"_slow_conv2d_backward", kCompute},
    {"slow_conv_transpose2d", kCompute},
    {"_conv_depthwise2d", kCompute},
    {"conv_depthwise3d", kCompute},
    {"mkldnn::_convolution_pointwise", kCompute},
    {"mkldnn::_linear_pointwise", kCompute},
    {"antegrad::onednn_product", kCompute},
    {"antegrad::biased_product", kCompute | kBlas},
    {"mkl::_mkl_linear", kCompute},
    {"mkldnn_linear", kCompute},
    {"mkldnn_rnn_layer", kCompute | kWrongMeta},
    {"mkldnn_rnn_layer_backward", kCompute},
    {.name = "_cudnn_rnn",
     .traits = kCompute | kRandom | kWrongMeta,
     .kernel = "antegrad::_cudnn_rnn",
     .draws_nothing = {.if_zero = 11, .if_false = 12}},
    {.name = "_cudnn_rnn_backward",
     .traits = kCompute | kWrongMeta,
     .kernel = "antegrad::_cudnn_rnn_backward"},
    {"_thnn_fused_lstm_cell"},
    {"_thnn_fused_lstm_cell_backward_impl"},
    {"_thnn_fused_gru_cell"},
    {"_thnn_fused_gru_cell_backward"},

    // Attention. Kernels with dropout draw from the generator; their backward reuses the seed.
    {.name = "_scaled_dot_product_flash_attention_for_cpu",
     .traits = kCompute,
     .draws_nothing = {.if_zero = 3}},  // it refuses dropout
    {"antegrad::attention", kCompute},
    {"antegrad::attention_backward", kCompute},
    {"_scaled_dot_product_flash_attention_for_cpu_backward", kCompute},
    attention("_scaled_dot_product_flash_attention", 3),
    {"_scaled_dot_product_flash_attention_backward", kCompute | kNotSame},
    attention("_scaled_dot_product_efficient_attention", 5),
    {"_scaled_dot_product_efficient_attention_backward", kCompute | kNotSame},
    attention("_scaled_dot_product_cudnn_attention", 5),
    {"_scaled_dot_product_cudnn_attention_backward", kCompute | kNotSame},
    {"_scaled_dot_product_fused_attention_overrideable", kCompute | kRandom},
    {"_scaled_dot_product_fused_attention_overrideable_backward", kCompute | kNotSame},
    attention("_flash_attention_forward", 7),
    {"_flash_attention_backward", kCompute | kNotSame},
    attention("_efficient_attention_forward", 8),
    {"_efficient_attention_backward", kCompute | kNotSame},
};

}  // namespace

std::span<const OpRow> compute_rows() { return kComputeRows; }

}  // namespace antegrad
