#include "common/vit.h"

#include <antegrad/error.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/init.h>

#include <string>

#include "common/transformer.h"

namespace antegrad::examples {

namespace nn = torch::nn;
namespace F = torch::nn::functional;

VitImpl::VitImpl(const VitConfig& config) {
  if (config.patch < 1 || config.image % config.patch != 0) {
    throw OptionError(ErrorText{
        "an image that patches fill",
        std::to_string(config.image) + " pixels and patches of " + std::to_string(config.patch),
        "change one of the two"});
  }
  const auto side = config.image / config.patch;
  patches_ = register_module(
      "patches", nn::Conv2d(nn::Conv2dOptions(3, config.width, config.patch).stride(config.patch)));
  positions_ = register_parameter("positions", at::empty({side * side, config.width}));
  blocks_ = register_module("blocks", nn::ModuleList());
  for (int64_t i = 0; i < config.layers; ++i) {
    blocks_->push_back(TransformerBlock(TransformerBlockConfig{
        .width = config.width, .heads = config.heads, .dropout = config.dropout}));
  }
  norm_ = register_module("norm", nn::LayerNorm(nn::LayerNormOptions({config.width})));
  classifier_ = register_module("classifier", nn::Linear(config.width, config.classes));
  nn::init::normal_(positions_, 0, 0.02);
}

at::Tensor VitImpl::forward(const at::Tensor& images, const CallBlock& call) {
  auto h = patches_->forward(images).flatten(/*start_dim=*/2).transpose(1, 2) + positions_;
  for (const auto& block : *blocks_) {
    h = call([block](const at::Tensor& x) { return block->as<TransformerBlockImpl>()->forward(x); },
             h);
  }
  return classifier_->forward(norm_->forward(h).mean(/*dim=*/1));
}

at::Tensor VitImpl::loss(const at::Tensor& images, const at::Tensor& classes,
                         const CallBlock& call) {
  return F::cross_entropy(forward(images, call), classes);
}

}  // namespace antegrad::examples
