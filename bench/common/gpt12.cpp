#include "common/gpt12.h"

#include <ATen/Parallel.h>
#include <ATen/ops/randint.h>
#include <torch/utils.h>

namespace antegrad::bench {

std::vector<std::string> peer_arguments(const examples::GptConfig& config, int64_t batch) {
  std::vector<std::string> arguments;
  for (const auto value : {int64_t{at::get_num_threads()}, config.vocabulary, config.layers,
                           config.width, config.heads, config.context, batch}) {
    arguments.push_back(std::to_string(value));
  }
  return arguments;
}

std::vector<std::string> peer_words(const examples::GptConfig& config, int64_t batch) {
  auto words = peer_arguments(config, batch);
  words.insert(words.begin(), "gpt");
  return words;
}

Tokens random_tokens(const examples::GptConfig& config, int64_t batch) {
  const auto tokens = [&] {
    return at::randint(config.vocabulary, {batch, config.context}, at::kLong);
  };
  auto inputs = tokens();
  return {std::move(inputs), tokens()};
}

CapturedGpt capture_gpt(const examples::GptConfig& config) {
  torch::manual_seed(0);
  examples::Gpt model(config);
  const auto tokens = random_tokens(config, kBatch);
  auto tree = std::make_shared<const guards::ModuleTree>(model.ptr());
  capture::Request request;
  request.name = "gpt12";
  request.arguments = {tokens.inputs, tokens.targets};
  request.body = [&](const std::vector<at::Tensor>& tensors) {
    return std::vector<at::Tensor>{model->loss(tensors.at(0), tensors.at(1))};
  };
  request.source_of = [&](const at::Tensor& tensor) {
    const auto* slot = tree->find(tensor);
    return slot == nullptr ? Source{} : slot->source;
  };
  auto captured = capture::capture(request);
  return {model, std::move(tree), Leaves{std::move(request.arguments), {}}, std::move(captured)};
}

}  // namespace antegrad::bench
