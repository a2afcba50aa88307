#include "common/lstm.h"

#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <torch/nn/functional/loss.h>

#include <tuple>
#include <vector>

namespace antegrad::bench {

namespace nn = torch::nn;

LstmImpl::LstmImpl(const LstmConfig& config) : config_(config) {
  embedding_ = register_module("embedding", nn::Embedding(config.vocabulary, config.width));
  cell_ = register_module("cell", nn::LSTMCell(config.width, config.width));
  classifier_ = register_module("classifier", nn::Linear(config.width, config.vocabulary));
}

at::Tensor LstmImpl::loss(const at::Tensor& tokens, const at::Tensor& targets) {
  const auto inputs = embedding_->forward(tokens).unbind(1);
  const auto start = at::zeros({tokens.size(0), config_.width});
  auto state = std::make_tuple(start, start);
  std::vector<at::Tensor> outputs;
  for (int64_t step = 0; step < config_.steps; ++step) {
    state = cell_->forward(inputs[step], state);
    outputs.push_back(std::get<0>(state));
  }
  const auto logits = classifier_->forward(at::stack(outputs, 1));
  return nn::functional::cross_entropy(logits.view({-1, config_.vocabulary}), targets.view(-1));
}

}  // namespace antegrad::bench
