#include "common/sharded_gpt.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/randint.h>

namespace antegrad::bench {

std::vector<at::Tensor> batch_of(const ProcessGroup& group) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(group.rank() + 1);
  const auto tokens =
      at::randint(kShardedGpt.vocabulary, {kSequencesOfRank, kShardedGpt.context + 1}, generator);
  return {tokens.narrow(1, 0, kShardedGpt.context).contiguous(),
          tokens.narrow(1, 1, kShardedGpt.context).contiguous()};
}

Sharded shard_blocks(examples::Gpt& model, const ProcessGroup& group) {
  for (const auto& module : model->modules(/*include_self=*/false)) {
    if (module->as<examples::TransformerBlock>() != nullptr) fully_shard(*module, group);
  }
  return fully_shard(*model, group);
}

std::shared_ptr<torch::optim::AdamW> adamw(const std::vector<at::Tensor>& parameters) {
  return std::make_shared<torch::optim::AdamW>(parameters, torch::optim::AdamWOptions(1e-3));
}

}  // namespace antegrad::bench
