#pragma once

/// \file
/// The transformer block of the language model and the vision transformer in the examples.

#include <ATen/core/Tensor.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/pimpl.h>

#include <cstdint>

namespace antegrad::examples {

struct TransformerBlockConfig {
  int64_t width = 192;  ///< a multiple of `heads`
  int64_t heads = 6;
  double dropout = 0;   ///< in attention, and at the end of each branch
  bool causal = false;  ///< each position attends to itself and earlier ones
};

/// Pre-LayerNorm transformer block: self-attention, then an MLP with GELU. Maps [batch, time,
/// width] to the same shape.
class TransformerBlockImpl : public torch::nn::Module {
 public:
  explicit TransformerBlockImpl(const TransformerBlockConfig& config);
  /// `mask`, if defined, broadcasts to [batch, heads, time, time]: true where a position attends to
  /// another.
  at::Tensor forward(const at::Tensor& x, const at::Tensor& mask = {});

 private:
  at::Tensor attention(const at::Tensor& x, const at::Tensor& mask);

  TransformerBlockConfig config_;
  torch::nn::LayerNorm attention_norm_ = nullptr, mlp_norm_ = nullptr;
  torch::nn::Linear qkv_ = nullptr, attention_out_ = nullptr, mlp_in_ = nullptr, mlp_out_ = nullptr;
  torch::nn::Dropout drop_ = nullptr;
};
TORCH_MODULE(TransformerBlock);

}  // namespace antegrad::examples
