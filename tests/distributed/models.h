#pragma once

/// \file
/// A model and its training, sharded, and as libtorch alone would do it: the gradients of all
/// ranks' batches, added up in the order of the ranks.

#include <antegrad/antegrad.h>
#include <torch/nn.h>
#include <torch/optim.h>

#include <functional>
#include <vector>

namespace antegrad::testing {

struct BlockImpl : torch::nn::Module {
  BlockImpl(int64_t width, double drop)
      : norm(register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})))),
        up(register_module("up", torch::nn::Linear(width, 3 * width))),
        down(register_module("down", torch::nn::Linear(3 * width, width))),
        drop(drop) {}
  at::Tensor forward(const at::Tensor& x) {
    return x + at::dropout(down(at::gelu(up(norm(x)))), drop, is_training());
  }
  torch::nn::LayerNorm norm;
  torch::nn::Linear up, down;
  double drop;
};
TORCH_MODULE(Block);

/// Blocks, and layers around them that belong to no block; the last one shares its weight.
struct ModelImpl : torch::nn::Module {
  explicit ModelImpl(int64_t blocks = 3, int64_t width = 24, double drop = 0)
      : embedding(register_module("embedding", torch::nn::Embedding(17, width))),
        norm(register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})))) {
    for (int64_t i = 0; i < blocks; ++i) {
      this->blocks->push_back(Block(width, drop));
    }
    register_module("blocks", this->blocks);
  }
  at::Tensor forward(const at::Tensor& tokens) {
    auto x = embedding(tokens);
    for (const auto& block : *blocks) x = block->as<Block>()->forward(x);
    return at::linear(norm(x), embedding->weight);
  }
  torch::nn::Embedding embedding;
  torch::nn::LayerNorm norm;
  torch::nn::ModuleList blocks;
};
TORCH_MODULE(Model);

struct Batch {
  at::Tensor tokens, targets;
  Batch to(at::Device device) const { return {tokens.to(device), targets.to(device)}; }
};
/// Of one rank in one step.
Batch batch_of(int64_t rank, int64_t step);
at::Tensor loss_of(Model& model, const at::Tensor& tokens, const at::Tensor& targets);

/// A unit for each block, and one for the rest.
Sharded shard_blocks(Model& model, const ProcessGroup& group, const ShardOptions& options = {});

/// Of all parameters.
void copy_values(Model& from, Model& to);
/// Of all parameters, in float32; undefined where there is none.
std::vector<at::Tensor> gradients_of(const Model& model);
/// The mean over ranks as they compute it: sums in their order.
at::Tensor mean_of(const std::vector<at::Tensor>& of_ranks);
/// Expects that all parameters have these bits.
void expect_bits(const Model& model, const std::vector<at::Tensor>& wanted);

}  // namespace antegrad::testing
