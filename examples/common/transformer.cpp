#include "common/transformer.h"

#include <antegrad/error.h>
#include <torch/nn/functional/activation.h>

#include <optional>
#include <string>

namespace antegrad::examples {

namespace nn = torch::nn;
namespace F = torch::nn::functional;

TransformerBlockImpl::TransformerBlockImpl(const TransformerBlockConfig& config) : config_(config) {
  const auto width = config.width;
  if (config.heads < 1 || width % config.heads != 0) {
    throw OptionError(
        ErrorText{"a width that is a multiple of the number of heads",
                  std::to_string(width) + " and " + std::to_string(config.heads) + " heads",
                  "change one of the two"});
  }
  attention_norm_ = register_module("attention_norm", nn::LayerNorm(nn::LayerNormOptions({width})));
  qkv_ = register_module("qkv", nn::Linear(width, 3 * width));
  attention_out_ = register_module("attention_out", nn::Linear(width, width));
  mlp_norm_ = register_module("mlp_norm", nn::LayerNorm(nn::LayerNormOptions({width})));
  mlp_in_ = register_module("mlp_in", nn::Linear(width, 4 * width));
  mlp_out_ = register_module("mlp_out", nn::Linear(4 * width, width));
  drop_ = register_module("drop", nn::Dropout(config.dropout));
}

at::Tensor TransformerBlockImpl::attention(const at::Tensor& x, const at::Tensor& mask) {
  const auto batch = x.size(0), time = x.size(1), width = x.size(2);
  const auto split = [&](const at::Tensor& t) {
    return t.view({batch, time, config_.heads, width / config_.heads}).transpose(1, 2);
  };
  const auto qkv = qkv_->forward(x).chunk(3, /*dim=*/-1);
  const auto mixed =
      at::scaled_dot_product_attention(split(qkv[0]), split(qkv[1]), split(qkv[2]),
                                       mask.defined() ? std::optional(mask) : std::nullopt,
                                       is_training() ? config_.dropout : 0.0, config_.causal);
  return attention_out_->forward(mixed.transpose(1, 2).reshape({batch, time, width}));
}

at::Tensor TransformerBlockImpl::forward(const at::Tensor& x, const at::Tensor& mask) {
  const auto h = x + drop_->forward(attention(attention_norm_->forward(x), mask));
  const auto inner =
      F::gelu(mlp_in_->forward(mlp_norm_->forward(h)), F::GELUFuncOptions().approximate("tanh"));
  return h + drop_->forward(mlp_out_->forward(inner));
}

}  // namespace antegrad::examples
