#include "common/sharded_gpt.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/randint.h>

#include "common/transformer.h"

namespace antegrad::bench {

at::Device device_of(const Training& training, const ProcessGroup& group) {
  return training.on_gpus ? at::Device(at::kCUDA, group.local_rank()) : at::Device(at::kCPU);
}

examples::Gpt model_of(const Training& training, const ProcessGroup& group) {
  examples::Gpt model(training.gpt);
  model->to(device_of(training, group));
  return model;
}

std::vector<at::Tensor> batch_of(const Training& training, const ProcessGroup& group) {
  const auto& gpt = training.gpt;
  auto generator = at::make_generator<at::CPUGeneratorImpl>(group.rank() + 1);
  const auto tokens = at::randint(gpt.vocabulary, {training.batch, gpt.context + 1}, generator)
                          .to(device_of(training, group));
  return {tokens.narrow(1, 0, gpt.context).contiguous(),
          tokens.narrow(1, 1, gpt.context).contiguous()};
}

Sharded shard_blocks(const Training& training, examples::Gpt& model, const ProcessGroup& group) {
  ShardOptions options;
  if (training.on_gpus) options = {.gather_dtype = at::kBFloat16, .reduce_dtype = at::kFloat};
  for (const auto& module : model->modules(/*include_self=*/false)) {
    if (module->as<examples::TransformerBlock>() != nullptr) fully_shard(*module, group, options);
  }
  return fully_shard(*model, group, options);
}

std::shared_ptr<torch::optim::AdamW> adamw(const std::vector<at::Tensor>& parameters) {
  return std::make_shared<torch::optim::AdamW>(parameters, torch::optim::AdamWOptions(1e-3));
}

}  // namespace antegrad::bench
