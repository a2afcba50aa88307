#include "common/models.h"

#include <torch/nn/functional/linear.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/pooling.h>

#include "common/transformer.h"

namespace antegrad::examples {

namespace nn = torch::nn;
namespace F = torch::nn::functional;

GptImpl::GptImpl(const GptConfig& config) : config_(config) {
  embedding_ = register_module("embedding", nn::Embedding(config.vocabulary, config.width));
  positions_ = register_parameter("positions", at::empty({config.context, config.width}));
  drop_ = register_module("drop", nn::Dropout(config.dropout));
  blocks_ = register_module("blocks", nn::ModuleList());
  for (int64_t i = 0; i < config.layers; ++i) {
    blocks_->push_back(TransformerBlock(TransformerBlockConfig{
        .width = config.width, .heads = config.heads, .dropout = config.dropout, .causal = true}));
  }
  norm_ = register_module("norm", nn::LayerNorm(nn::LayerNormOptions({config.width})));
  // The output layer shares the weight of the embedding. It must be small, or the first losses are
  // huge.
  nn::init::normal_(embedding_->weight, 0, 0.02);
  nn::init::normal_(positions_, 0, 0.02);
}

at::Tensor GptImpl::forward(const at::Tensor& tokens, const CallBlock& call) {
  const auto positions = positions_.narrow(/*dim=*/0, /*start=*/0, tokens.size(1));
  auto h = drop_->forward(embedding_->forward(tokens) + positions);
  for (const auto& block : *blocks_) {
    h = call([block](const at::Tensor& x) { return block->as<TransformerBlockImpl>()->forward(x); },
             h);
  }
  return F::linear(norm_->forward(h), embedding_->weight);
}

at::Tensor GptImpl::loss(const at::Tensor& tokens, const at::Tensor& targets,
                         const CallBlock& call) {
  return F::cross_entropy(forward(tokens, call).view({-1, config_.vocabulary}), targets.view(-1));
}

MlpImpl::MlpImpl(const MlpConfig& config) {
  layers_ = register_module("layers", nn::Sequential());
  for (int64_t i = 0; i < config.layers; ++i) {
    layers_->push_back(nn::LayerNorm(nn::LayerNormOptions({config.width})));
    layers_->push_back(nn::Linear(config.width, config.width));
    layers_->push_back(nn::GELU(nn::GELUOptions().approximate("tanh")));
    layers_->push_back(nn::Dropout(config.dropout));
  }
}

at::Tensor MlpImpl::forward(const at::Tensor& x, const CallBlock& call) {
  constexpr size_t kModules = 4;  // of a layer
  auto h = x;
  for (size_t first = 0; first < layers_->size(); first += kModules) {
    const auto layer = [modules = layers_.ptr(), first](const at::Tensor& in) {
      auto out = in;
      for (size_t i = 0; i < kModules; ++i) {
        out = (modules->begin() + static_cast<std::ptrdiff_t>(first + i))->forward(out);
      }
      return out;
    };
    h = call(layer, h);
  }
  return h;
}

at::Tensor MlpImpl::loss(const at::Tensor& x, const at::Tensor& targets, const CallBlock& call) {
  return F::mse_loss(forward(x, call), targets);
}

CnnImpl::CnnImpl(const CnnConfig& config) {
  features_ = register_module("features", nn::Sequential());
  auto image = config.image;
  for (size_t i = 0; i + 1 < config.channels.size(); ++i) {
    const auto out = config.channels[i + 1];
    for (const auto in : {config.channels[i], out}) {
      features_->push_back(
          nn::Conv2d(nn::Conv2dOptions(in, out, /*kernel_size=*/3).padding(1).bias(false)));
      features_->push_back(nn::BatchNorm2d(out));
      features_->push_back(nn::ReLU());
    }
    features_->push_back(nn::MaxPool2d(2));
    image /= 2;
  }
  drop_ = register_module("drop", nn::Dropout(config.dropout));
  classifier_ = register_module("classifier",
                                nn::Linear(config.channels.back() * image * image, config.classes));
}

at::Tensor CnnImpl::forward(const at::Tensor& images) {
  const auto features = features_->forward(images).flatten(/*start_dim=*/1);
  return classifier_->forward(drop_->forward(features));
}

at::Tensor CnnImpl::loss(const at::Tensor& images, const at::Tensor& classes) {
  return F::cross_entropy(forward(images), classes);
}

int64_t parameter_count(const nn::Module& module) {
  int64_t count = 0;
  for (const auto& parameter : module.parameters()) count += parameter.numel();
  return count;
}

void clear_gradients(const nn::Module& module) {
  for (auto& parameter : module.parameters()) parameter.mutable_grad() = at::Tensor();
}

}  // namespace antegrad::examples
