#pragma once

/// \file
/// The GPT whose capture, guards and passes are measured, and a batch for it.

#include <ATen/core/Tensor.h>
#include <antegrad/tree.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "capture/capture.h"
#include "common/models.h"
#include "compile/module_tree.h"

namespace antegrad::bench {

/// GPT-2 small in shape, with a small vocabulary: its joint graph has about a thousand nodes.
inline examples::GptConfig gpt12() {
  return {.vocabulary = 1000, .layers = 12, .width = 768, .heads = 12, .context = 128};
}

/// Sequences of a captured batch.
inline constexpr int64_t kBatch = 2;

struct Tokens {
  at::Tensor inputs, targets;
};

/// Random tokens for this model, from libtorch's generator.
Tokens random_tokens(const examples::GptConfig& config, int64_t batch);

/// A model of that configuration, captured, with what ag::compile would hold beside it.
struct CapturedGpt {
  examples::Gpt model;
  std::shared_ptr<const compiler::ModuleTree> tree;
  Leaves arguments;
  capture::Captured captured;
};
CapturedGpt capture_gpt(const examples::GptConfig& config);
inline CapturedGpt capture_gpt12() { return capture_gpt(gpt12()); }

/// What scripts in bench/peers take for it: threads, the configuration, the batch.
std::vector<std::string> peer_arguments(const examples::GptConfig& config, int64_t batch = kBatch);

}  // namespace antegrad::bench
