#include "common/gpt12.h"

#include <ATen/ops/randint.h>
#include <torch/utils.h>

namespace antegrad::bench {

Tokens random_tokens(const examples::GptConfig& config, int64_t batch) {
  const auto tokens = [&] {
    return at::randint(config.vocabulary, {batch, config.context}, at::kLong);
  };
  auto inputs = tokens();
  return {std::move(inputs), tokens()};
}

CapturedGpt capture_gpt12() {
  torch::manual_seed(0);
  examples::Gpt model(gpt12());
  const auto tokens = random_tokens(gpt12(), /*batch=*/2);
  auto tree = std::make_shared<const compiler::ModuleTree>(model.ptr());
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
