#include "common/resnet.h"

#include <torch/nn/functional/loss.h>

namespace antegrad::examples {

namespace nn = torch::nn;
namespace F = torch::nn::functional;

nn::Conv2d convolution(int64_t in, int64_t out, int64_t kernel, int64_t stride) {
  return nn::Conv2d(
      nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false));
}

ResidualBlockImpl::ResidualBlockImpl(int64_t in, int64_t out, int64_t stride) {
  first_ = register_module("first", convolution(in, out, 3, stride));
  first_norm_ = register_module("first_norm", nn::BatchNorm2d(out));
  second_ = register_module("second", convolution(out, out, 3, 1));
  second_norm_ = register_module("second_norm", nn::BatchNorm2d(out));
  if (stride == 1 && in == out) return;
  shortcut_ = register_module("shortcut", convolution(in, out, 1, stride));
  shortcut_norm_ = register_module("shortcut_norm", nn::BatchNorm2d(out));
}

at::Tensor ResidualBlockImpl::forward(const at::Tensor& x) {
  const auto inner = at::relu(first_norm_->forward(first_->forward(x)));
  const auto branch = second_norm_->forward(second_->forward(inner));
  return at::relu(branch + (shortcut_ ? shortcut_norm_->forward(shortcut_->forward(x)) : x));
}

ResNetImpl::ResNetImpl(const ResNetConfig& config) {
  auto width = config.widths.at(0);
  stem_ = register_module("stem", convolution(3, width, 3, 1));
  stem_norm_ = register_module("stem_norm", nn::BatchNorm2d(width));
  blocks_ = register_module("blocks", nn::ModuleList());
  for (size_t stage = 0; stage < config.widths.size(); ++stage) {
    for (int64_t i = 0; i < config.blocks; ++i) {
      const auto out = config.widths[stage];
      blocks_->push_back(ResidualBlock(width, out, i == 0 && stage > 0 ? 2 : 1));
      width = out;
    }
  }
  classifier_ = register_module("classifier", nn::Linear(width, config.classes));
}

at::Tensor ResNetImpl::forward(const at::Tensor& images, const CallBlock& call) {
  auto h = at::relu(stem_norm_->forward(stem_->forward(images)));
  for (const auto& block : *blocks_) {
    h = call([block](const at::Tensor& x) { return block->as<ResidualBlockImpl>()->forward(x); },
             h);
  }
  return classifier_->forward(h.mean({2, 3}));
}

at::Tensor ResNetImpl::loss(const at::Tensor& images, const at::Tensor& classes,
                            const CallBlock& call) {
  return F::cross_entropy(forward(images, call), classes);
}

}  // namespace antegrad::examples
