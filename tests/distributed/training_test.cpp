#include <c10/core/DeviceGuard.h>
#include <gmock/gmock.h>
#include <torch/cuda.h>

#include <cstdlib>
#include <map>
#include <optional>
#include <string>

#include "distributed/models.h"
#include "distributed/ranks.h"

namespace antegrad::testing::sharded_training_test {
namespace {

using List = std::vector<at::Tensor>;
constexpr int kSteps = 4;
constexpr double kRate = 1e-2, kDecay = 0.1;

enum class Way : uint8_t { call, step, compiled_backward };

struct Case {
  ShardOptions shard = {};
  Options options = {};
  double drop = 0;
  bool frozen = false;      // the embedding, which is also the last weight
  bool replicated = false;  // instead of sharded
  Way way = Way::call;
};

const std::map<std::string, Case>& cases() {
  static const auto* const all = new std::map<std::string, Case>{
      {"usual", {}},
      {"plain_kernels", {.options = Options().with_lowering(Lowering::off)}},
      {"min_cut", {.options = Options().with_partition(Partitioner::min_cut)}},
      {"budget", {.options = Options().with_memory_share(0)}},
      {"kept", {.shard = {.regather = false}}},
      {"no_overlap", {.options = Options().with_gather_prefetch(0)}},
      {"far_ahead", {.options = Options().with_gather_prefetch(3)}},
      {"joined", {.options = Options().with_gather_bucket_bytes(1 << 20)}},
      {"joined_in_pairs", {.options = Options().with_gather_bucket_bytes(32'000)}},
      {"joined_half",
       {.shard = {.gather_dtype = at::kBFloat16, .reduce_dtype = at::kFloat},
        .options = Options().with_gather_bucket_bytes(1 << 20)}},
      {"joined_in_budget",
       {.options = Options().with_memory_share(0.5).with_gather_bucket_bytes(1 << 20)}},
      {"joined_compiled_backward",
       {.options = Options().with_gather_bucket_bytes(1 << 20), .way = Way::compiled_backward}},
      {"half", {.shard = {.gather_dtype = at::kBFloat16, .reduce_dtype = at::kFloat}}},
      {"half_in_budget",
       {.shard = {.gather_dtype = at::kBFloat16, .reduce_dtype = at::kFloat},
        .options = Options().with_memory_share(0)}},
      {"priced", {.options = Options().with_partition(Partitioner::priced)}},
      {"dropout", {.drop = 0.2}},
      {"dropout_in_budget", {.options = Options().with_memory_share(0), .drop = 0.2}},
      {"frozen", {.frozen = true}},
      {"replicated", {.replicated = true}},
      {"replicated_and_frozen", {.frozen = true, .replicated = true}},
      {"replicated_in_budget",
       {.options = Options().with_memory_share(0), .drop = 0.2, .replicated = true}},
      {"replicated_whole_step", {.replicated = true, .way = Way::step}},
      {"replicated_compiled_backward", {.replicated = true, .way = Way::compiled_backward}},
      {"whole_step", {.way = Way::step}},
      {"compiled_backward", {.way = Way::compiled_backward}},
      {"compiled_backward_in_budget",
       {.options = Options().with_memory_share(0), .way = Way::compiled_backward}},
  };
  return *all;
}

/// Of this rank: the CPU, or a GPU of its own.
at::Device device_of(const ProcessGroup& group) {
  const char* const gpus = std::getenv("ANTEGRAD_SHARDED_ON_GPUS");
  return gpus == nullptr ? at::Device(at::kCPU) : at::Device(at::kCUDA, group.local_rank());
}

const Case& case_here() { return cases().at(std::getenv("ANTEGRAD_SHARDED_CASE")); }

Model model_of(const Case& one, at::Device device) {
  Model model(3, 24, one.drop);
  model->to(device);
  model->embedding->weight.set_requires_grad(!one.frozen);
  return model;
}

void seed(int rank, int step) { at::manual_seed(100 * step + rank); }

// The gradients of one rank, by libtorch alone.
List gradients_of_rank(Model& model, const Case& one, int rank, int step) {
  const auto device = model->embedding->weight.device();
  const auto batch = batch_of(rank, step).to(device);
  auto used = model_of(one, device);
  copy_values(model, used);
  if (one.shard.gather_dtype) used->to(*one.shard.gather_dtype);
  seed(rank, step);
  loss_of(used, batch.tokens, batch.targets).backward();
  return gradients_of(used);
}

List expected(const Case& one, int ranks, at::Device device) {
  at::manual_seed(0);
  auto model = model_of(one, device);
  const auto parameters = model->parameters();
  torch::optim::AdamW optimizer(parameters, torch::optim::AdamWOptions(kRate).weight_decay(kDecay));
  for (int step = 0; step < kSteps; ++step) {
    std::vector<List> of_ranks;
    for (int rank = 0; rank < ranks; ++rank) {
      of_ranks.push_back(gradients_of_rank(model, one, rank, step));
    }
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (!of_ranks[0][i].defined()) continue;
      List all;
      for (const auto& gradients : of_ranks) all.push_back(gradients[i]);
      parameters[i].mutable_grad() = mean_of(all);
    }
    optimizer.step();
  }
  return parameters;
}

// Calls it with the batches of this rank.
template <class Step>
void train(const ProcessGroup& group, Step&& step) {
  for (int i = 0; i < kSteps; ++i) {
    const auto batch = batch_of(group.rank(), i).to(device_of(group));
    seed(group.rank(), i);
    step(batch);
  }
}

TEST(DISABLED_Rank, Trains) {
  const auto& one = case_here();
  const auto group = ProcessGroup::of_environment();
  const auto device = device_of(group);
  const c10::DeviceGuard of_this_rank(device);
  const auto wanted = expected(one, group.size(), device);

  at::manual_seed(group.rank());  // rank 0's parameters count
  auto model = model_of(one, device);
  std::optional<Sharded> sharded;
  std::optional<Replicated> replicated;
  if (one.replicated) {
    replicated = replicate(*model, group, {.bucket_bytes = 9000});
    EXPECT_GT(replicated->buckets(), 3);
  } else {
    sharded = shard_blocks(model, group, one.shard);
  }
  const auto loss = [model](const at::Tensor& tokens, const at::Tensor& targets) mutable {
    return loss_of(model, tokens, targets);
  };
  auto options = one.options;
  options.with_verify_graphs(true);
  torch::optim::AdamW optimizer(sharded ? sharded->parameters() : model->parameters(),
                                torch::optim::AdamWOptions(kRate).weight_decay(kDecay));
  Report report;
  if (one.way == Way::step) {
    auto step = compile_step(model, optimizer, loss, options);
    train(group, [&](const Batch& batch) { step(batch.tokens, batch.targets); });
    report = step.report();
  } else {
    std::optional<CompiledBackward> backward;
    if (one.way == Way::compiled_backward) backward.emplace();
    auto step = compile(model, loss, options);
    train(group, [&](const Batch& batch) {
      optimizer.zero_grad();
      step(batch.tokens, batch.targets).backward();
      optimizer.step();
    });
    report = step.report();
    if (backward) {
      EXPECT_THAT(backward->report().left_to_libtorch, ::testing::IsEmpty());
      EXPECT_EQ(backward->report().passes, kSteps);
    }
  }
  EXPECT_EQ(report.eager_calls, 0);
  EXPECT_EQ(report.compiled_calls, kSteps);
  std::optional<Sharded::Unsharded> full;
  if (sharded) full.emplace(sharded->unsharded());
  expect_bits(model, wanted);
}

class Sharding : public ::testing::TestWithParam<std::tuple<int, std::string>> {};

TEST_P(Sharding, HasTheBitsOfLibtorchAlone) {
  const auto& [ranks, name] = GetParam();
  expect_on_ranks("DISABLED_Rank.Trains", ranks, {{"ANTEGRAD_SHARDED_CASE", name}});
}

class ShardingOnGpus : public ::testing::TestWithParam<std::string> {};

TEST_P(ShardingOnGpus, HasTheBitsOfLibtorchAlone) {
  constexpr int kRanks = 2;
  if (torch::cuda::device_count() < kRanks) GTEST_SKIP() << "needs " << kRanks << " GPUs";
  expect_on_ranks("DISABLED_Rank.Trains", kRanks,
                  {{"ANTEGRAD_SHARDED_CASE", GetParam()}, {"ANTEGRAD_SHARDED_ON_GPUS", "1"}});
}

INSTANTIATE_TEST_SUITE_P(Gpus, ShardingOnGpus, ::testing::ValuesIn(names_of(cases())),
                         [](const auto& info) { return info.param; });

INSTANTIATE_TEST_SUITE_P(Ranks, Sharding,
                         ::testing::Combine(::testing::Values(1, 2, 4),
                                            ::testing::ValuesIn(names_of(cases()))),
                         CaseOnRanks());

}  // namespace
}  // namespace antegrad::testing::sharded_training_test
