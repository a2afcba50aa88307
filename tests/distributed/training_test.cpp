#include <ATen/CPUGeneratorImpl.h>
#include <gmock/gmock.h>

#include "distributed/models.h"
#include "distributed/ranks.h"

namespace antegrad::testing::sharded_training_test {
namespace {

using List = std::vector<at::Tensor>;
constexpr int kSteps = 4;

// The parameters after some steps of libtorch alone.
List expected(Model model, int ranks, const std::function<at::Tensor(Model&, const Batch&)>& loss) {
  auto parameters = model->parameters();
  torch::optim::AdamW optimizer(parameters, torch::optim::AdamWOptions(1e-2).weight_decay(0.1));
  for (int step = 0; step < kSteps; ++step) {
    std::vector<List> gradients(parameters.size());
    for (int rank = 0; rank < ranks; ++rank) {
      optimizer.zero_grad();
      loss(model, batch_of(rank, step)).backward();
      for (size_t i = 0; i < parameters.size(); ++i) {
        gradients[i].push_back(parameters[i].grad().clone());
      }
    }
    for (size_t i = 0; i < parameters.size(); ++i) {
      auto& mean = parameters[i].mutable_grad();
      mean = ranks == 1 ? gradients[i][0] : at::stack(gradients[i]).sum(0).mul(1.0 / ranks);
    }
    optimizer.step();
  }
  return parameters;
}

void expect_same(const List& found, const List& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_TRUE(at::equal(found[i], expected[i]))
        << "parameter " << i << " differs by "
        << (found[i] - expected[i]).abs().max().item<double>();
  }
}

TEST(DISABLED_Rank, Trains) {
  const auto group = ProcessGroup::of_environment();
  at::manual_seed(0);
  Model reference;
  const auto wanted = expected(reference, group.size(), [](Model& model, const Batch& batch) {
    return loss_of(model, batch.tokens, batch.targets);
  });

  at::manual_seed(group.rank());  // rank 0's parameters count
  Model model;
  const auto sharded = shard_blocks(model, group);
  torch::optim::AdamW optimizer(sharded.parameters(),
                                torch::optim::AdamWOptions(1e-2).weight_decay(0.1));
  auto step = compile(
      model,
      [model](const at::Tensor& tokens, const at::Tensor& targets) mutable {
        return loss_of(model, tokens, targets);
      },
      Options().with_verify_graphs(true));
  for (int i = 0; i < kSteps; ++i) {
    optimizer.zero_grad();
    const auto batch = batch_of(group.rank(), i);
    step(batch.tokens, batch.targets).backward();
    optimizer.step();
  }
  EXPECT_EQ(step.report().eager_calls, 0);
  EXPECT_EQ(step.report().compiled_calls, kSteps);
  const auto full = sharded.unsharded();
  const at::NoGradGuard no_grad;
  expect_same(model->parameters(), wanted);
}

class Sharding : public ::testing::TestWithParam<int> {};
TEST_P(Sharding, HasTheBitsOfLibtorchAlone) { expect_on_ranks("DISABLED_Rank.Trains", GetParam()); }
INSTANTIATE_TEST_SUITE_P(Ranks, Sharding, ::testing::Values(1, 2, 4),
                         ::testing::PrintToStringParamName());

}  // namespace
}  // namespace antegrad::testing::sharded_training_test
