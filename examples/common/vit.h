#pragma once

/// \file
/// A small vision transformer: patches of an image as a sequence.

#include <ATen/core/Tensor.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/pimpl.h>

#include <cstdint>

#include "common/blocks.h"

namespace antegrad::examples {

struct VitConfig {
  int64_t image = 32;  ///< height and width, a multiple of `patch`
  int64_t patch = 4;
  int64_t layers = 4;
  int64_t width = 192;  ///< a multiple of `heads`
  int64_t heads = 6;
  int64_t classes = 10;
  double dropout = 0;  ///< in attention, and at the end of each branch
};

/// A linear map of each patch, learned positions, transformer blocks, the mean over patches, and a
/// linear classifier. The loss is the cross entropy.
class VitImpl : public torch::nn::Module {
 public:
  explicit VitImpl(const VitConfig& config);
  /// [batch, 3, image, image] to [batch, classes].
  at::Tensor forward(const at::Tensor& images, const CallBlock& call = call_directly);
  at::Tensor loss(const at::Tensor& images, const at::Tensor& classes,
                  const CallBlock& call = call_directly);

 private:
  torch::nn::Conv2d patches_ = nullptr;
  at::Tensor positions_;
  torch::nn::ModuleList blocks_ = nullptr;
  torch::nn::LayerNorm norm_ = nullptr;
  torch::nn::Linear classifier_ = nullptr;
};
TORCH_MODULE(Vit);

}  // namespace antegrad::examples
