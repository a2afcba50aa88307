#include "distributed/models.h"

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

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

void copy_values(Model& from, Model& to) {
  const at::NoGradGuard no_grad;
  const auto values = from->parameters(), parameters = to->parameters();
  for (size_t i = 0; i < values.size(); ++i) parameters[i].copy_(values[i]);
}

std::vector<at::Tensor> gradients_of(const Model& model) {
  std::vector<at::Tensor> gradients;
  for (const auto& parameter : model->parameters()) {
    const auto& gradient = parameter.grad();
    gradients.push_back(gradient.defined() ? gradient.to(at::kFloat) : at::Tensor());
  }
  return gradients;
}

at::Tensor mean_of(const std::vector<at::Tensor>& of_ranks) {
  const auto ranks = static_cast<double>(of_ranks.size());
  return ranks == 1 ? of_ranks[0] : at::stack(of_ranks).sum(0).mul(1 / ranks);
}

void expect_bits(const Model& model, const std::vector<at::Tensor>& wanted) {
  const at::NoGradGuard no_grad;
  const auto found = model->parameters();
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_TRUE(at::equal(found[i], wanted[i]))
        << "parameter " << i << " differs by " << (found[i] - wanted[i]).abs().max().item<double>();
  }
}

}  // namespace antegrad::testing
