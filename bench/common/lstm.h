#pragma once

/// \file
/// A recurrent language model: LSTM cells, one step after the other.

#include <ATen/core/Tensor.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/rnn.h>
#include <torch/nn/pimpl.h>

#include <cstdint>

namespace antegrad::bench {

struct LstmConfig {
  int64_t vocabulary = 256;  ///< bytes
  int64_t width = 256;       ///< of the embedding and of the states
  int64_t steps = 32;
};

/// An embedding, an LSTM cell over the steps, and a linear map to the vocabulary. The loss is the
/// cross entropy.
class LstmImpl : public torch::nn::Module {
 public:
  explicit LstmImpl(const LstmConfig& config);
  /// Of tokens and targets [batch, steps].
  at::Tensor loss(const at::Tensor& tokens, const at::Tensor& targets);

 private:
  LstmConfig config_;
  torch::nn::Embedding embedding_ = nullptr;
  torch::nn::LSTMCell cell_ = nullptr;
  torch::nn::Linear classifier_ = nullptr;
};
TORCH_MODULE(Lstm);

}  // namespace antegrad::bench
