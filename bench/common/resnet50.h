#pragma once

/// \file
/// ResNet-50 (He et al. 2015, https://arxiv.org/abs/1512.03385): the network for large images that
/// training systems are compared on.

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <vector>

#include "common/blocks.h"

namespace antegrad::bench {

/// 1×1, 3×3 and 1×1 convolutions with batch norm and a shortcut around them. The inner ones have a
/// quarter of the `out` channels, and the 3×3 one has the stride. The shortcut is a 1×1 convolution
/// if the shape changes.
class BottleneckImpl : public torch::nn::Module {
 public:
  BottleneckImpl(int64_t in, int64_t out, int64_t stride);
  at::Tensor forward(const at::Tensor& x);

 private:
  std::vector<torch::nn::Conv2d> convolutions_;
  std::vector<torch::nn::BatchNorm2d> norms_;
  torch::nn::Conv2d shortcut_ = nullptr;
  torch::nn::BatchNorm2d shortcut_norm_ = nullptr;
};
TORCH_MODULE(Bottleneck);

class ResNet50Impl : public torch::nn::Module {
 public:
  static constexpr int64_t kClasses = 1000;

  ResNet50Impl();
  /// The cross entropy of images [batch, 3, height, width] and classes [batch].
  at::Tensor loss(const at::Tensor& images, const at::Tensor& classes,
                  const examples::CallBlock& call = examples::call_directly);

 private:
  torch::nn::Conv2d stem_ = nullptr;
  torch::nn::BatchNorm2d stem_norm_ = nullptr;
  torch::nn::ModuleList blocks_ = nullptr;
  torch::nn::Linear classifier_ = nullptr;
};
TORCH_MODULE(ResNet50);

}  // namespace antegrad::bench
