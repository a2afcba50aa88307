#include "common/resnet50.h"

#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/relu.h>
#include <torch/nn/functional/loss.h>

#include <array>
#include <string>

#include "common/resnet.h"

namespace antegrad::bench {

namespace nn = torch::nn;

using examples::convolution;

BottleneckImpl::BottleneckImpl(int64_t in, int64_t out, int64_t stride) {
  const auto inner = out / 4;
  const auto add = [&](nn::Conv2d layer, int64_t channels) {
    const auto number = std::to_string(convolutions_.size());
    convolutions_.push_back(register_module("convolution" + number, std::move(layer)));
    norms_.push_back(register_module("norm" + number, nn::BatchNorm2d(channels)));
  };
  add(convolution(in, inner, 1, 1), inner);
  add(convolution(inner, inner, 3, stride), inner);
  add(convolution(inner, out, 1, 1), out);
  if (stride == 1 && in == out) return;
  shortcut_ = register_module("shortcut", convolution(in, out, 1, stride));
  shortcut_norm_ = register_module("shortcut_norm", nn::BatchNorm2d(out));
}

at::Tensor BottleneckImpl::forward(const at::Tensor& x) {
  auto h = x;
  for (size_t i = 0; i < convolutions_.size(); ++i) {
    if (i > 0) h = at::relu(h);
    h = norms_[i]->forward(convolutions_[i]->forward(h));
  }
  return at::relu(h + (shortcut_ ? shortcut_norm_->forward(shortcut_->forward(x)) : x));
}

ResNet50Impl::ResNet50Impl() {
  struct Stage {
    int64_t blocks, width;
  };
  constexpr std::array<Stage, 4> kStages = {{{3, 256}, {4, 512}, {6, 1024}, {3, 2048}}};
  int64_t width = 64;
  stem_ = register_module("stem", convolution(3, width, 7, 2));
  stem_norm_ = register_module("stem_norm", nn::BatchNorm2d(width));
  blocks_ = register_module("blocks", nn::ModuleList());
  for (const auto& stage : kStages) {
    for (int64_t i = 0; i < stage.blocks; ++i) {
      const bool halves = i == 0 && &stage != kStages.begin();
      blocks_->push_back(Bottleneck(width, stage.width, halves ? 2 : 1));
      width = stage.width;
    }
  }
  classifier_ = register_module("classifier", nn::Linear(width, kClasses));
}

at::Tensor ResNet50Impl::loss(const at::Tensor& images, const at::Tensor& classes,
                              const examples::CallBlock& call) {
  auto h = at::relu(stem_norm_->forward(stem_->forward(images)));
  h = at::max_pool2d(h, {3, 3}, {2, 2}, {1, 1});
  for (const auto& block : *blocks_) {
    h = call([block](const at::Tensor& x) { return block->as<BottleneckImpl>()->forward(x); }, h);
  }
  return nn::functional::cross_entropy(classifier_->forward(h.mean({2, 3})), classes);
}

}  // namespace antegrad::bench
