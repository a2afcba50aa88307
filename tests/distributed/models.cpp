#include "distributed/models.h"

#include <ATen/CPUGeneratorImpl.h>

namespace antegrad::testing {

Batch batch_of(int64_t rank, int64_t step) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(1000 * step + rank);
  auto tokens = at::randint(17, {4, 9}, generator, at::kLong);
  return {tokens.narrow(1, 0, 8).contiguous(), tokens.narrow(1, 1, 8).contiguous()};
}

at::Tensor loss_of(Model& model, const at::Tensor& tokens, const at::Tensor& targets) {
  return at::cross_entropy_loss(model->forward(tokens).flatten(0, 1), targets.flatten());
}

Sharded shard_blocks(Model& model, const ProcessGroup& group, const ShardOptions& options) {
  for (const auto& block : *model->blocks) fully_shard(*block, group, options);
  return fully_shard(*model, group, options);
}

}  // namespace antegrad::testing
