#pragma once

/// \file
/// A residual network for small images. By default as wide and deep as ResNet-20 for CIFAR.

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <vector>

#include "common/blocks.h"

namespace antegrad::examples {

/// Without a bias, padded so that a stride of 1 keeps the size of the image.
torch::nn::Conv2d convolution(int64_t in, int64_t out, int64_t kernel, int64_t stride);

struct ResNetConfig {
  std::vector<int64_t> widths = {16, 32,
                                 64};  ///< channels of each stage; images halve between stages
  int64_t blocks = 3;                  ///< in each stage
  int64_t classes = 10;
};

/// Two 3×3 convolutions with batch norm and a shortcut around them. The shortcut is a 1×1
/// convolution if the shape changes.
class ResidualBlockImpl : public torch::nn::Module {
 public:
  ResidualBlockImpl(int64_t in, int64_t out, int64_t stride);
  at::Tensor forward(const at::Tensor& x);

 private:
  torch::nn::Conv2d first_ = nullptr, second_ = nullptr, shortcut_ = nullptr;
  torch::nn::BatchNorm2d first_norm_ = nullptr, second_norm_ = nullptr, shortcut_norm_ = nullptr;
};
TORCH_MODULE(ResidualBlock);

/// A convolution, stages of residual blocks, the mean over the image, and a linear classifier. The
/// loss is the cross entropy.
class ResNetImpl : public torch::nn::Module {
 public:
  explicit ResNetImpl(const ResNetConfig& config);
  /// [batch, 3, height, width] to [batch, classes].
  at::Tensor forward(const at::Tensor& images, const CallBlock& call = call_directly);
  at::Tensor loss(const at::Tensor& images, const at::Tensor& classes,
                  const CallBlock& call = call_directly);

 private:
  torch::nn::Conv2d stem_ = nullptr;
  torch::nn::BatchNorm2d stem_norm_ = nullptr;
  torch::nn::ModuleList blocks_ = nullptr;
  torch::nn::Linear classifier_ = nullptr;
};
TORCH_MODULE(ResNet);

}  // namespace antegrad::examples
