#pragma once

/// \file
/// The models of the examples, benchmarks and tests: ordinary libtorch modules that know nothing of
/// antegrad. Each takes inputs and targets and returns a scalar loss. Models made of blocks or
/// layers also take the function that calls these.

#include <ATen/core/Tensor.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <vector>

#include "common/blocks.h"

namespace antegrad::examples {

struct GptConfig {
  int64_t vocabulary = 256;  ///< bytes
  int64_t layers = 4;
  int64_t width = 192;  ///< a multiple of `heads`
  int64_t heads = 6;
  int64_t context = 128;  ///< the longest sequence
  double dropout = 0;     ///< after the embedding, in attention, and at the end of each branch
};

/// GPT with learned positions; the output layer shares the weight of the token embedding.
class GptImpl : public torch::nn::Module {
 public:
  explicit GptImpl(const GptConfig& config);
  /// [batch, time] token numbers to [batch, time, vocabulary] logits.
  at::Tensor forward(const at::Tensor& tokens, const CallBlock& call = call_directly);
  /// Mean cross entropy of the logits against `targets`, shaped like `tokens`.
  at::Tensor loss(const at::Tensor& tokens, const at::Tensor& targets,
                  const CallBlock& call = call_directly);

  const GptConfig& config() const { return config_; }

 private:
  GptConfig config_;
  torch::nn::Embedding embedding_ = nullptr;
  at::Tensor positions_;
  torch::nn::Dropout drop_ = nullptr;
  torch::nn::ModuleList blocks_ = nullptr;
  torch::nn::LayerNorm norm_ = nullptr;
};
TORCH_MODULE(Gpt);

struct MlpConfig {
  int64_t layers = 8;
  int64_t width = 512;
  double dropout = 0.1;
};

/// Layers of LayerNorm, Linear, GELU and Dropout. The loss is the mean squared error.
class MlpImpl : public torch::nn::Module {
 public:
  explicit MlpImpl(const MlpConfig& config);
  at::Tensor forward(const at::Tensor& x, const CallBlock& call = call_directly);
  at::Tensor loss(const at::Tensor& x, const at::Tensor& targets,
                  const CallBlock& call = call_directly);

 private:
  torch::nn::Sequential layers_ = nullptr;
};
TORCH_MODULE(Mlp);

struct CnnConfig {
  std::vector<int64_t> channels = {3, 32, 64, 128};
  int64_t image = 32;  ///< height and width; halved between stages, a multiple of 2^stages
  int64_t classes = 10;
  double dropout = 0;  ///< before the last layer
};

/// Stages of two Conv, BatchNorm and ReLU followed by MaxPool, then a linear classifier. The loss
/// is the cross entropy.
class CnnImpl : public torch::nn::Module {
 public:
  explicit CnnImpl(const CnnConfig& config);
  at::Tensor forward(const at::Tensor& images);
  at::Tensor loss(const at::Tensor& images, const at::Tensor& classes);

 private:
  torch::nn::Sequential features_ = nullptr;
  torch::nn::Dropout drop_ = nullptr;
  torch::nn::Linear classifier_ = nullptr;
};
TORCH_MODULE(Cnn);

/// Number of elements of all parameters; a shared one counts once.
int64_t parameter_count(const torch::nn::Module& module);
/// Leaves `.grad` of all parameters undefined.
void clear_gradients(const torch::nn::Module& module);

}  // namespace antegrad::examples
