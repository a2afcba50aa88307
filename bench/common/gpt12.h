#pragma once

/// \file
/// The GPT on which capture, guards and passes are measured, and a batch for it.

#include <ATen/core/Tensor.h>
#include <antegrad/tree.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "capture/capture.h"
#include "common/models.h"
#include "guards/module_tree.h"

namespace antegrad::bench {

/// The shape of GPT-2 small with a small vocabulary. Its joint graph has about a thousand nodes.
inline examples::GptConfig gpt12() {
  return {.vocabulary = 1000, .layers = 12, .width = 768, .heads = 12, .context = 128};
}

/// Number of sequences in a captured batch.
inline constexpr int64_t kBatch = 2;

struct Tokens {
  at::Tensor inputs, targets;
};

/// Random tokens for a model, from libtorch's generator.
Tokens random_tokens(const examples::GptConfig& config, int64_t batch);

/// A captured model of this configuration, with the values that ag::compile keeps beside the graph.
struct CapturedGpt {
  examples::Gpt model;
  std::shared_ptr<const guards::ModuleTree> tree;
  Leaves arguments;
  capture::Captured captured;
};
CapturedGpt capture_gpt(const examples::GptConfig& config);
inline CapturedGpt capture_gpt12() { return capture_gpt(gpt12()); }

/// Arguments of the scripts in bench/peers: threads, the configuration, the batch.
std::vector<std::string> peer_arguments(const examples::GptConfig& config, int64_t batch = kBatch);
/// The same for scripts that take any model; see child.h.
std::vector<std::string> peer_words(const examples::GptConfig& config, int64_t batch);

}  // namespace antegrad::bench
