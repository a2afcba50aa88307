#include "common/varied.h"

#include <ATen/ATen.h>
#include <torch/nn/functional/loss.h>

#include "common/transformer.h"

namespace antegrad::bench {

namespace nn = torch::nn;
namespace F = torch::nn::functional;

ClassifierImpl::ClassifierImpl() {
  embedding_ = register_module("embedding", nn::Embedding(kVocabulary, kWidth));
  blocks_ = register_module("blocks", nn::ModuleList());
  for (int64_t i = 0; i < kLayers; ++i) {
    blocks_->push_back(examples::TransformerBlock(
        examples::TransformerBlockConfig{.width = kWidth, .heads = kHeads}));
  }
  out_ = register_module("out", nn::Linear(kWidth, kClasses));
}

Batch ClassifierImpl::batch(int64_t rows, int64_t length) {
  const auto lengths = at::randint(1, length + 1, {rows, 1}, at::kLong);
  return {at::randint(kVocabulary, {rows, length}, at::kLong), at::arange(length) < lengths,
          at::randint(kClasses, {rows}, at::kLong)};
}

at::Tensor ClassifierImpl::loss(const Batch& batch) {
  const auto& mask = batch[1];
  const auto attended = mask.unsqueeze(1).unsqueeze(1);
  auto h = embedding_->forward(batch[0]);
  for (const auto& block : *blocks_) {
    h = block->as<examples::TransformerBlockImpl>()->forward(h, attended);
  }
  const auto weights = mask.unsqueeze(2).to(h.dtype());
  const auto mean = (h * weights).sum(1) / weights.sum(1);
  return F::cross_entropy(out_->forward(mean), batch[2]);
}

BoxesImpl::BoxesImpl() {
  convolutions_ = register_module("convolutions", nn::ModuleList());
  const auto add = [&](int64_t in, int64_t out, int64_t stride) {
    convolutions_->push_back(nn::Conv2d(nn::Conv2dOptions(in, out, 3).stride(stride).padding(1)));
  };
  add(3, 32, 2);
  add(32, 64, 2);
  for (int i = 0; i < 3; ++i) add(64, 64, 1);
  scores_ = register_module("scores", nn::Conv2d(nn::Conv2dOptions(64, 1, 1)));
  boxes_ = register_module("boxes", nn::Conv2d(nn::Conv2dOptions(64, 4, 1)));
}

Batch BoxesImpl::batch(int64_t images, int64_t size) {
  const auto positions = images * size * size / 16;
  return {at::randn({images, 3, size, size}), at::randn({positions, 4}),
          at::randint(2, {positions}, at::kFloat)};
}

at::Tensor BoxesImpl::loss(const Batch& batch) {
  auto h = batch[0];
  for (const auto& convolution : *convolutions_) {
    h = convolution->as<nn::Conv2dImpl>()->forward(h).relu();
  }
  const auto scores = scores_->forward(h).flatten();
  const auto boxes = boxes_->forward(h).permute({0, 2, 3, 1}).reshape({-1, 4});
  const auto kept = (scores > scores.mean()).nonzero().squeeze(1);
  const auto errors = F::smooth_l1_loss(boxes.index_select(0, kept), batch[1].index_select(0, kept),
                                        F::SmoothL1LossFuncOptions(torch::kSum));
  return errors / static_cast<double>(kept.size(0) + 1) +
         at::binary_cross_entropy_with_logits(scores, batch[2]);
}

GnnImpl::GnnImpl() {
  in_ = register_module("in", nn::Linear(kFeatures, kWidth));
  messages_ = register_module("messages", nn::ModuleList());
  updates_ = register_module("updates", nn::ModuleList());
  norms_ = register_module("norms", nn::ModuleList());
  for (int64_t i = 0; i < kLayers; ++i) {
    messages_->push_back(nn::Linear(kWidth, kWidth));
    updates_->push_back(nn::Linear(2 * kWidth, kWidth));
    norms_->push_back(nn::LayerNorm(nn::LayerNormOptions({kWidth})));
  }
  out_ = register_module("out", nn::Linear(kWidth, kClasses));
}

Batch GnnImpl::batch(int64_t nodes, int64_t edges) {
  const auto ends = [&] { return at::randint(nodes, {edges}, at::kLong); };
  return {at::randn({nodes, kFeatures}), ends(), ends(), at::randint(kClasses, {nodes}, at::kLong)};
}

at::Tensor GnnImpl::loss(const Batch& batch) {
  auto h = in_->forward(batch[0]);
  for (int64_t i = 0; i < kLayers; ++i) {
    const auto message = (*messages_)[i]->as<nn::LinearImpl>()->forward(h).relu();
    const auto sum = at::zeros_like(h).index_add(0, batch[2], message.index_select(0, batch[1]));
    const auto update = (*updates_)[i]->as<nn::LinearImpl>()->forward(at::cat({h, sum}, 1));
    h = (*norms_)[i]->as<nn::LayerNormImpl>()->forward(h + update.relu());
  }
  return F::cross_entropy(out_->forward(h), batch[3]);
}

}  // namespace antegrad::bench
