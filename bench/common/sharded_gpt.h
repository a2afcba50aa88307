#pragma once

/// \file
/// The GPT that several processes train, and what each of them gives to it.

#include <ATen/core/Tensor.h>
#include <antegrad/process_group.h>
#include <antegrad/sharding.h>
#include <torch/optim/adamw.h>

#include <memory>
#include <vector>

#include "common/models.h"
#include "common/transformer.h"

namespace antegrad::bench {

inline constexpr examples::GptConfig kShardedGpt{
    .vocabulary = 256, .layers = 6, .width = 256, .heads = 8, .context = 128};
inline constexpr int64_t kSequencesOfRank = 4;

/// Tokens and their targets, of one rank.
std::vector<at::Tensor> batch_of(const ProcessGroup& group);

/// A unit for each block, and one for the rest.
Sharded shard_blocks(examples::Gpt& model, const ProcessGroup& group);

std::shared_ptr<torch::optim::AdamW> adamw(const std::vector<at::Tensor>& parameters);

}  // namespace antegrad::bench
