#include "graph/op_traits_table.h"

#include <unordered_map>

#include "graph/op.h"

namespace antegrad {
namespace {

// Everything but the pointwise operators. Names without "::" are aten's.
constexpr OpRow kRows[] = {
    // Matrix products, convolutions, recurrent cells.
    {"mm", kCompute},
    {"bmm", kCompute},
    {"mv", kCompute},
    {"dot", kCompute},
    {"vdot", kCompute},
    {"addmm", kCompute},
    {"addmv", kCompute},
    {"addr", kCompute},
    {"baddbmm", kCompute},
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
    {"mkl::_mkl_linear", kCompute},
    {"mkldnn_linear", kCompute},
    {"mkldnn_rnn_layer", kCompute},
    {"mkldnn_rnn_layer_backward", kCompute},
    {"_cudnn_rnn", kCompute | kRandom},
    {"_cudnn_rnn_backward", kCompute},
    {"_thnn_fused_lstm_cell"},
    {"_thnn_fused_lstm_cell_backward_impl"},
    {"_thnn_fused_gru_cell"},
    {"_thnn_fused_gru_cell_backward"},

    // Attention. Kernels that can drop out draw from the generator; their backward replays the seed.
    {"_scaled_dot_product_flash_attention_for_cpu", kCompute},
    {"_scaled_dot_product_flash_attention_for_cpu_backward", kCompute},
    {"_scaled_dot_product_flash_attention", kCompute | kRandom},
    {"_scaled_dot_product_flash_attention_backward", kCompute | kNotSame},
    {"_scaled_dot_product_efficient_attention", kCompute | kRandom},
    {"_scaled_dot_product_efficient_attention_backward", kCompute | kNotSame},
    {"_scaled_dot_product_cudnn_attention", kCompute | kRandom},
    {"_scaled_dot_product_cudnn_attention_backward", kCompute | kNotSame},
    {"_scaled_dot_product_fused_attention_overrideable", kCompute | kRandom},
    {"_scaled_dot_product_fused_attention_overrideable_backward", kCompute | kNotSame},
    {"_flash_attention_forward", kCompute | kRandom},
    {"_flash_attention_backward", kCompute | kNotSame},
    {"_efficient_attention_forward", kCompute | kRandom},
    {"_efficient_attention_backward", kCompute | kNotSame},

    // Reductions and scans.
    {"sum", kReduction},
    {"nansum", kReduction},
    {"mean", kReduction},
    {"prod", kReduction},
    {"amax", kReduction},
    {"amin", kReduction},
    {"aminmax", kReduction},
    {"max", kReduction},
    {"min", kReduction},
    {"argmax", kReduction},
    {"argmin", kReduction},
    {"all", kReduction},
    {"any", kReduction},
    {"std", kReduction},
    {"std_mean", kReduction},
    {"var", kReduction},
    {"var_mean", kReduction},
    {"norm", kReduction},
    {"linalg_vector_norm", kReduction},
    {"logsumexp", kReduction},
    {"median", kReduction},
    {"nanmedian", kReduction},
    {"mode", kReduction},
    {"kthvalue", kReduction},
    {"count_nonzero", kReduction},
    {"trace", kReduction},
    {"cumsum", kReduction},
    {"cumprod", kReduction},
    {"cummax", kReduction},
    {"cummin", kReduction},
    {"logcumsumexp", kReduction},
    {"sort", kReduction},
    {"argsort", kReduction},
    {"topk", kReduction},
    {"renorm", kReduction},
    {"value_selecting_reduction_backward"},

    // Softmax and normalisation.
    {"_softmax", kReduction},
    {"_softmax_backward_data", kReduction},
    {"_log_softmax", kReduction},
    {"_log_softmax_backward_data", kReduction},
    {"_masked_softmax", kReduction},
    {"_masked_softmax_backward", kReduction},
    {"_safe_softmax", kReduction},
    {"native_layer_norm", kReduction},
    {"native_layer_norm_backward", kReduction},
    {"_fused_rms_norm", kReduction},
    {"_fused_rms_norm_backward", kReduction},
    {"native_group_norm", kReduction},
    {"native_group_norm_backward", kReduction},
    {"_native_batch_norm_legit_functional", kReduction},
    {"_native_batch_norm_legit_no_training", kReduction},
    {"_native_batch_norm_legit", kReduction | kMutates},
    {"_batch_norm_with_update_functional", kReduction},
    {"_batch_norm_with_update", kReduction | kMutates},
    {"_batch_norm_no_update", kReduction},
    {"batch_norm_backward", kReduction},
    {"native_batch_norm", kReduction | kMutates},
    {"native_batch_norm_backward", kReduction},
    {"cudnn_batch_norm", kReduction | kMutates},
    {"cudnn_batch_norm_backward", kReduction},
    {"_weight_norm_interface", kReduction},
    {"_weight_norm_interface_backward", kReduction},

    // Losses.
    {"nll_loss_forward", kReduction},
    {"nll_loss_backward"},
    {"nll_loss2d_forward", kReduction},
    {"nll_loss2d_backward"},
    {"mse_loss", kReduction},
    {"smooth_l1_loss", kReduction},
    {"huber_loss", kReduction},
    {"binary_cross_entropy", kReduction},
    {"binary_cross_entropy_with_logits", kReduction},
    {"soft_margin_loss", kReduction},
    {"multi_margin_loss", kReduction},
    {"multi_margin_loss_backward"},
    {"multilabel_margin_loss_forward", kReduction},
    {"multilabel_margin_loss_backward"},
    {"_ctc_loss", kReduction},
    {"_ctc_loss_backward", kNotSame},
    {"glu"},
    {"glu_backward"},

    // Views: all outputs share the storage of the first input.
    {"view", kView | kNoOp | kReshape},
    {"_unsafe_view", kView | kNoOp | kReshape},
    {"_reshape_alias", kView | kNoOp},
    {"reshape", kView | kNoOp | kReshape},
    {"as_strided", kView | kNoOp},
    {"t", kView | kNoOp},
    {"transpose", kView | kNoOp},
    {"permute", kView | kNoOp},
    {"movedim", kView | kNoOp},
    {"expand", kView | kNoOp},
    {"broadcast_to", kView | kNoOp},
    {"squeeze", kView | kNoOp},
    {"unsqueeze", kView | kNoOp},
    {"slice", kView | kNoOp},
    {"select", kView | kNoOp},
    {"narrow", kView | kNoOp},
    {"diagonal", kView | kNoOp},
    {"unfold", kView | kNoOp},
    {"split", kView | kNoOp},
    {"split_with_sizes", kView | kNoOp},
    {"chunk", kView | kNoOp},
    {"tensor_split", kView | kNoOp},
    {"unbind", kView | kNoOp},
    {"detach", kView | kNoOp},
    {"alias", kView | kNoOp},
    {"lift_fresh", kView | kNoOp},
    {"flatten", kView | kNoOp},
    {"unflatten", kView | kNoOp},
    // These also change how the memory is to be read, which metadata do not show.
    {"view_as_real", kView},
    {"view_as_complex", kView},
    {"_conj", kView},
    {"_neg_view", kView},
    {"real", kView},
    {"imag", kView},
    {"prims::view_of", kView | kNoOp},
    {"prims::broadcast_in_dim", kView | kNoOp},

    // Factories. Fresh memory holds other bits each time.
    {"zeros", kFactory},
    {"ones", kFactory},
    {"full", kFactory},
    {"empty", kFactory | kNotSame},
    {"empty_strided", kFactory | kNotSame},
    {"empty_permuted", kFactory | kNotSame},
    {"arange", kFactory},
    {"linspace", kFactory},
    {"logspace", kFactory},
    {"eye", kFactory},
    {"scalar_tensor", kFactory},
    {"tril_indices", kFactory},
    {"triu_indices", kFactory},
    {"hann_window", kFactory},
    {"zeros_like", kMetaOnly},
    {"ones_like", kMetaOnly},
    {"full_like", kMetaOnly},
    {"empty_like", kMetaOnly | kNotSame},
    {"new_zeros", kMetaOnly},
    {"new_ones", kMetaOnly},
    {"new_full", kMetaOnly},
    {"new_empty", kMetaOnly | kNotSame},
    {"new_empty_strided", kMetaOnly | kNotSame},

    // Random draws.
    {"rand", kFactory | kRandom},
    {"randn", kFactory | kRandom},
    {"randint", kFactory | kRandom},
    {"randperm", kFactory | kRandom},
    {"rand_like", kMetaOnly | kRandom},
    {"randn_like", kMetaOnly | kRandom},
    {"randint_like", kMetaOnly | kRandom},
    {"native_dropout", kRandom},
    {"_fused_dropout", kRandom},
    {"bernoulli", kRandom},
    {"multinomial", kRandom},
    {"poisson", kRandom},
    {"binomial", kRandom},
    {"normal", kRandom},
    {"normal_functional", kMetaOnly | kRandom},
    {"uniform", kMetaOnly | kRandom},
    {"random", kMetaOnly | kRandom},
    {"exponential", kMetaOnly | kRandom},
    {"geometric", kMetaOnly | kRandom},
    {"log_normal", kMetaOnly | kRandom},
    {"cauchy", kMetaOnly | kRandom},
    {"rrelu_with_noise", kRandom | kMutates},
    {"rrelu_with_noise_functional", kRandom},
    {"_standard_gamma", kRandom},
    {"_sample_dirichlet", kRandom},
    {"_standard_gamma_grad"},

    // Indexing. Accumulation into shared places runs in an order of its own on CUDA.
    {"embedding"},
    {"embedding_dense_backward", kNotSame},
    {"_embedding_bag"},
    {"_embedding_bag_forward_only"},
    {"_embedding_bag_dense_backward", kNotSame},
    {"embedding_renorm_", kMutates},
    {"index"},
    {"_unsafe_index"},
    {"index_select"},
    {"index_put", kNotSame},
    {"_unsafe_index_put", kNotSame},
    {"index_add", kNotSame},
    {"index_copy", kNotSame},
    {"index_fill"},
    {"index_reduce", kNotSame},
    {"gather"},
    {"scatter", kNotSame},
    {"scatter_add", kNotSame},
    {"scatter_reduce", kNotSame},
    {"put", kNotSame},
    {"take"},
    {"masked_scatter"},
    {"masked_scatter_backward"},
    {"masked_select"},
    {"nonzero"},
    {"searchsorted"},
    {"bucketize"},
    {"histc", kNotSame},
    {"bincount", kNotSame},
    {"select_scatter"},
    {"slice_scatter"},
    {"diagonal_scatter"},
    {"as_strided_scatter"},
    {"slice_backward"},
    {"select_backward"},
    {"diagonal_backward"},
    {"unfold_backward"},
    {"as_strided_copy"},

    // Moving data about.
    {"cat"},
    {"stack"},
    {"repeat"},
    {"repeat_interleave"},
    {"flip"},
    {"roll"},
    {"tril"},
    {"triu"},
    {"diag_embed"},
    {"tile"},
    {"constant_pad_nd"},
    {"reflection_pad1d"},
    {"reflection_pad1d_backward", kNotSame},
    {"reflection_pad2d"},
    {"reflection_pad2d_backward", kNotSame},
    {"replication_pad1d"},
    {"replication_pad1d_backward", kNotSame},
    {"replication_pad2d"},
    {"replication_pad2d_backward", kNotSame},
    {"pixel_shuffle"},
    {"pixel_unshuffle"},
    {"channel_shuffle"},
    {"im2col"},
    {"col2im"},
    {"view_copy"},
    {"expand_copy"},
    {"permute_copy"},
    {"t_copy"},
    {"_pin_memory"},
    {"contiguous", kNoOp},
    {"_to_cpu"},
    {"resolve_conj"},
    {"resolve_neg"},

    // Pooling and interpolation.
    {"max_pool2d_with_indices", kReduction},
    {"max_pool2d_with_indices_backward", kNotSame},
    {"max_pool3d_with_indices", kReduction},
    {"max_pool3d_with_indices_backward", kNotSame},
    {"avg_pool2d", kReduction},
    {"avg_pool2d_backward"},
    {"avg_pool3d", kReduction},
    {"avg_pool3d_backward"},
    {"_adaptive_avg_pool2d", kReduction},
    {"_adaptive_avg_pool2d_backward", kNotSame},
    {"_adaptive_avg_pool3d", kReduction},
    {"_adaptive_avg_pool3d_backward", kNotSame},
    {"adaptive_max_pool2d", kReduction},
    {"adaptive_max_pool2d_backward", kNotSame},
    {"upsample_nearest1d"},
    {"upsample_nearest1d_backward"},
    {"upsample_nearest2d"},
    {"upsample_nearest2d_backward"},
    {"upsample_bilinear2d"},
    {"upsample_bilinear2d_backward", kNotSame},
    {"upsample_bicubic2d"},
    {"upsample_bicubic2d_backward", kNotSame},
    {"grid_sampler_2d"},
    {"grid_sampler_2d_backward", kNotSame},

    // Linear algebra and transforms that losses use.
    {"linalg_cholesky_ex"},
    {"linalg_inv_ex"},
    {"linalg_solve_triangular"},
    {"linalg_lu_factor_ex"},
    {"linalg_lu_solve"},
    {"_linalg_det"},
    {"_linalg_slogdet"},
    {"_linalg_svd"},
    {"_linalg_eigh"},
    {"linalg_qr"},
    {"linalg_cross"},
    {"triangular_solve"},
    {"_fft_r2c"},
    {"_fft_c2r"},
    {"_fft_c2c"},

    // Mixed precision.
    {"_amp_foreach_non_finite_check_and_unscale", kReduction},
    {"_amp_update_scale"},

    // Acts on the world.
    {"_assert_async", kEffect},
    {"_functional_assert_async", kEffect},
    {"_assert_scalar", kEffect},
    {"_assert_tensor_metadata", kEffect | kMetaOnly},
    {"_print", kEffect},
    {"record_stream", kEffect},

    // Writes its input; gone after functionalisation.
    {"set_", kMutates},
    {"resize_", kMutates},

    // Collectives, in the order that all ranks agreed on.
    {"_c10d_functional::all_reduce", kCollective},
    {"_c10d_functional::all_reduce_coalesced", kCollective},
    {"_c10d_functional::all_gather_into_tensor", kCollective},
    {"_c10d_functional::all_gather_into_tensor_out", kCollective | kMutates},
    {"_c10d_functional::all_gather_into_tensor_coalesced", kCollective},
    {"_c10d_functional::reduce_scatter_tensor", kCollective},
    {"_c10d_functional::reduce_scatter_tensor_out", kCollective | kMutates},
    {"_c10d_functional::reduce_scatter_tensor_coalesced", kCollective},
    {"_c10d_functional::all_to_all_single", kCollective},
    {"_c10d_functional::broadcast", kCollective},
    {"_c10d_functional::wait_tensor", kCollective},
};

// What only reads sizes, and what makes the same from numbers.
constexpr FactoryRow kFactories[] = {
    {"aten::zeros_like.default", "aten::zeros.default"},
    {"aten::ones_like.default", "aten::ones.default"},
    {"aten::full_like.default", "aten::full.default", 1},
    {"aten::empty_like.default", "aten::empty_strided.default", -1, true},
    {"aten::new_zeros.default", "aten::zeros.default"},
    {"aten::new_ones.default", "aten::ones.default"},
    {"aten::new_full.default", "aten::full.default", 2},
    {"aten::new_empty.default", "aten::empty_strided.default", -1, true},
    {"aten::new_empty_strided.default", "aten::empty_strided.default", -1, true},
    {"aten::zero.default", "aten::zeros.default"},
    {"aten::fill.Scalar", "aten::full.default", 1},
};

OpTraits traits_of(uint32_t flags) {
  OpTraits traits;
  traits.known = true;
  traits.pointwise = flags & kPointwise;
  traits.reduction = flags & kReduction;
  traits.view = flags & kView;
  traits.random = flags & kRandom;
  traits.effect = flags & kEffect;
  traits.compute_intensive = flags & kCompute;
  traits.collective = flags & kCollective;
  traits.mutates = flags & kMutates;
  traits.factory = flags & kFactory;
  traits.reads_data = !(flags & kMetaOnly);
  // A draw depends on its generator, so no second call gives the same bits.
  traits.deterministic = !(flags & (kNotSame | kRandom));
  traits.no_op_when_same_meta = flags & kNoOp;
  traits.reshape = flags & kReshape;
  return traits;
}

const std::unordered_map<std::string, OpTraits>& table() {
  static const auto* const rows = [] {
    auto* result = new std::unordered_map<std::string, OpTraits>;
    const auto full_name = [](std::string_view name) {
      const bool qualified = name.find("::") != std::string_view::npos;
      return qualified ? std::string(name) : "aten::" + std::string(name);
    };
    for (const PointwiseRow& row : pointwise_rows()) {
      result->emplace(full_name(row.base_name), traits_of(row.flags | kPointwise));
    }
    for (const OpRow& row : other_rows()) {
      result->emplace(full_name(row.base_name), traits_of(row.flags));
    }
    return result;
  }();
  return *rows;
}

}  // namespace

std::span<const OpRow> other_rows() { return kRows; }

const FactoryRow* factory_row(std::string_view name) {
  for (const FactoryRow& row : kFactories) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

OpTraits builtin_traits(std::string_view base_name) {
  std::string name(base_name);
  if (const auto found = table().find(name); found != table().end()) return found->second;
  // "aten::add_" is "aten::add" written in place; "aten::__lshift__" is a name of its own.
  if (!name.ends_with('_') || name.ends_with("__")) return {};
  name.pop_back();
  const auto found = table().find(name);
  if (found == table().end()) return {};
  OpTraits traits = found->second;
  traits.mutates = true;
  return traits;
}

}  // namespace antegrad
