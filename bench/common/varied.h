#pragma once

/// \file
/// Models whose batches differ in size from step to step, as bench/peers/varied.py has them too.

#include <ATen/core/Tensor.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <vector>

namespace antegrad::bench {

using Batch = std::vector<at::Tensor>;

/// Classifies texts of random lengths, padded to the longest of the batch: transformer blocks with
/// a mask, and the mean over the positions that are not padding.
class ClassifierImpl : public torch::nn::Module {
 public:
  static constexpr int64_t kVocabulary = 1000, kWidth = 256, kHeads = 4, kLayers = 4, kClasses = 10;

  ClassifierImpl();
  static Batch batch(int64_t rows, int64_t length);
  /// Of tokens [rows, length], which positions are no padding, classes [rows].
  at::Tensor loss(const Batch& batch);

 private:
  torch::nn::Embedding embedding_ = nullptr;
  torch::nn::ModuleList blocks_ = nullptr;
  torch::nn::Linear out_ = nullptr;
};
TORCH_MODULE(Classifier);

/// Scores a box at each position of an image. Those above a threshold are compared with targets:
/// their number depends on the data and differs in each step.
class BoxesImpl : public torch::nn::Module {
 public:
  BoxesImpl();
  static Batch batch(int64_t images, int64_t size);
  /// Of images [n, 3, size, size], true boxes [n * size * size / 16, 4], and whether there is one.
  at::Tensor loss(const Batch& batch);

 private:
  torch::nn::ModuleList convolutions_ = nullptr;
  torch::nn::Conv2d scores_ = nullptr, boxes_ = nullptr;
};
TORCH_MODULE(Boxes);

/// Message passing along edges: gathers from sources, adds at targets.
class GnnImpl : public torch::nn::Module {
 public:
  static constexpr int64_t kFeatures = 64, kWidth = 128, kLayers = 4, kClasses = 10;

  GnnImpl();
  static Batch batch(int64_t nodes, int64_t edges);
  /// Of features [nodes, kFeatures], sources [edges], targets [edges], classes [nodes].
  at::Tensor loss(const Batch& batch);

 private:
  torch::nn::Linear in_ = nullptr, out_ = nullptr;
  torch::nn::ModuleList messages_ = nullptr, updates_ = nullptr, norms_ = nullptr;
};
TORCH_MODULE(Gnn);

}  // namespace antegrad::bench
