#pragma once

/// \file
/// The GPTs that several processes train, and what each of them gives to it.

#include <ATen/core/Tensor.h>
#include <antegrad/process_group.h>
#include <antegrad/sharding.h>
#include <torch/optim/adamw.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "common/models.h"

namespace antegrad::bench {

struct Training {
  examples::GptConfig gpt = {};
  int64_t batch = 0;     ///< sequences of each rank
  bool on_gpus = false;  ///< each rank on one; computes in bfloat16, adds gradients up in float32
};

inline constexpr Training kSmallGpt{
    {.vocabulary = 256, .layers = 6, .width = 256, .heads = 8, .context = 128}, 4};

/// Of this rank.
at::Device device_of(const Training& training, const ProcessGroup& group);
examples::Gpt model_of(const Training& training, const ProcessGroup& group);

/// Tokens and their targets, of this rank.
std::vector<at::Tensor> batch_of(const Training& training, const ProcessGroup& group);

/// A unit for each block, and one for the rest.
Sharded shard_blocks(const Training& training, examples::Gpt& model, const ProcessGroup& group);

std::shared_ptr<torch::optim::AdamW> adamw(const std::vector<at::Tensor>& parameters);

}  // namespace antegrad::bench
