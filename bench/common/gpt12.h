#pragma once

/// \file
/// The GPT whose capture and guards are measured, and a batch for it.

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "common/models.h"

namespace antegrad::bench {

/// GPT-2 small in shape, with a small vocabulary: its joint graph has about a thousand nodes.
inline examples::GptConfig gpt12() {
  return {.vocabulary = 1000, .layers = 12, .width = 768, .heads = 12, .context = 128};
}

struct Tokens {
  at::Tensor inputs, targets;
};

/// Random tokens for this model, from libtorch's generator.
Tokens random_tokens(const examples::GptConfig& config, int64_t batch);

}  // namespace antegrad::bench
