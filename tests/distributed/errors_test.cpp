#include <gmock/gmock.h>

#include <csignal>
#include <thread>

#include "distributed/models.h"
#include "distributed/networks.h"
#include "distributed/ranks.h"

namespace antegrad::testing::sharding_errors_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Training {
  explicit Training(const ProcessGroup& group, int64_t blocks = 2, const Options& options = {})
      : model(blocks),
        group(group),
        sharded(shard_blocks(model, group)),
        optimizer(sharded.parameters(), torch::optim::SGDOptions(1e-2)),
        loss([this](const at::Tensor& tokens, const at::Tensor& targets) {
          return loss_of(model, tokens, targets);
        }),
        step(compile(model, loss, options)) {}

  double run(int64_t number) {
    optimizer.zero_grad();
    const auto batch = batch_of(group.rank(), number);
    auto result = step(batch.tokens, batch.targets);
    result.backward();
    optimizer.step();
    return result.item<double>();
  }

  Model model;
  ProcessGroup group;
  Sharded sharded;
  torch::optim::SGD optimizer;
  std::function<at::Tensor(const at::Tensor&, const at::Tensor&)> loss;
  Compiled<std::function<at::Tensor(const at::Tensor&, const at::Tensor&)>> step;
};

// --- what one process can get wrong
// ---------------------------------------------------------------

TEST(DISABLED_Rank, IsAloneAndErrs) {
  const auto group = ProcessGroup::of_environment();
  Training training(group);
  training.run(0);

  // Eager code that reads a parameter.
  const auto tokens = batch_of(0, 0).tokens;
  EXPECT_THROW(training.model->forward(tokens), c10::Error);
  // Within the scope it may, and what it writes is kept.
  {
    const auto full = training.sharded.unsharded();
    EXPECT_EQ(training.model->forward(tokens).sizes(), at::IntArrayRef({4, 8, 17}));
    const at::NoGradGuard no_grad;
    training.model->norm->weight.fill_(3);
  }
  EXPECT_THROW(training.model->forward(tokens), c10::Error);
  {
    const auto full = training.sharded.unsharded();
    EXPECT_EQ(training.model->norm->weight.sum().item<float>(), 3 * 24);
  }
  training.run(1);

  const auto weight = training.model->norm->weight;
  auto product = compile([](const at::Tensor& w, const at::Tensor& x) { return w * x; });
  EXPECT_THAT(message_of<CaptureError>([&] { product(weight, at::ones({24})); }),
              HasSubstr("a sharded or replicated parameter as an argument"));

  auto clipping = compile_step(training.model, training.optimizer, training.loss,
                               default_step_options(), {.clip_norm = 1.0});
  const auto batch = batch_of(0, 0);
  EXPECT_THAT(message_of<OptionError>([&] { clipping(batch.tokens, batch.targets); }),
              HasSubstr("Sharded::clip_grad_norm_()"));

  torch::nn::Linear used(2, 2);
  used->forward(at::ones({1, 2})).sum().backward();
  EXPECT_THAT(message_of<InputError>([&] { fully_shard(*used, group); }),
              HasSubstr("one that has a gradient"));
  torch::nn::Linear shared(2, 2);
  const auto view = shared->weight.detach();
  EXPECT_THAT(message_of<InputError>([&] { fully_shard(*shared, group); }),
              HasSubstr("the parameter weight, one that shares its memory"));
  EXPECT_TRUE(shared->weight.sum().isfinite().item<bool>());
  torch::nn::ReLU none;
  EXPECT_THAT(message_of<InputError>([&] { fully_shard(*none, group); }),
              HasSubstr("a module with parameters"));
  EXPECT_THAT(message_of<InputError>([&] { ProcessGroup::of_c10d("nobody"); }),
              HasSubstr("\"nobody\""));
}

TEST(ShardingErrors, OfOneProcess) { expect_on_ranks("DISABLED_Rank.IsAloneAndErrs", 1); }

// --- what ranks can have that others do not
// -------------------------------------------------------

TEST(DISABLED_Rank, HasAnotherModel) {
  const auto group = ProcessGroup::of_environment({.timeout = seconds(5)});
  torch::nn::Linear model(3, group.rank() == 1 ? 4 : 5);
  try {
    fully_shard(*model, group);
    FAIL();
  } catch (const DistributedError& error) {
    EXPECT_THAT(error.ranks(), ElementsAre(1));
    EXPECT_THAT(error.what(), HasSubstr("expected \"  weight [5, 3]\" on all ranks"));
    EXPECT_THAT(error.what(), HasSubstr("\"  weight [4, 3]\" on rank 1"));
  }
  EXPECT_EQ(model->weight.numel(), group.rank() == 1 ? 12 : 15);
  EXPECT_TRUE(model->weight.sum().isfinite().item<bool>());
}

TEST(ShardingErrors, OfAnotherModel) { expect_on_ranks("DISABLED_Rank.HasAnotherModel", 3); }

TEST(DISABLED_Rank, HasAnotherGraph) {
  const auto group = ProcessGroup::of_environment({.timeout = seconds(5)});
  Training training(group);
  training.run(0);
  // One rank leaves a block out.
  if (group.rank() == 0) {
    training.loss = [&](const at::Tensor& tokens, const at::Tensor& /*targets*/) {
      return training.model->norm(training.model->embedding(tokens)).sum();
    };
    training.step = compile(training.model, training.loss);
  }
  try {
    training.run(1);
    FAIL();
  } catch (const DistributedError& error) {
    EXPECT_THAT(error.ranks(), ElementsAre(AnyOf(0, 1)));
    EXPECT_THAT(error.what(), HasSubstr("all_gather"));
  }
}

TEST(ShardingErrors, OfAnotherGraph) { expect_on_ranks("DISABLED_Rank.HasAnotherGraph", 2); }

// --- ranks that end, or stop
// -----------------------------------------------------------------------

TEST(DISABLED_Rank, TrainsUntilOneIsGone) {
  const auto group = ProcessGroup::of_environment({.timeout = seconds(5)});
  Training training(group);
  for (int i = 0; i < 3; ++i) training.run(i);
  std::puts("trains");
  std::fflush(stdout);
  try {
    while (true) training.run(0);
  } catch (const DistributedError& error) {
    std::printf("ranks");
    for (const int32_t rank : error.ranks()) std::printf(" %d", rank);
    std::printf(".\n%s\n", error.what());
  }
  EXPECT_THAT(message_of<DistributedError>([&] { group.barrier(); }), HasSubstr("failed before"));
}

class Gone : public ::testing::TestWithParam<std::tuple<int, int, int>> {};

TEST_P(Gone, IsNamedByAllOthersInTime) {
  const auto& [count, rank, signal] = GetParam();
  Ranks ranks("DISABLED_Rank.TrainsUntilOneIsGone", count);
  for (int i = 0; i < count; ++i) ASSERT_TRUE(ranks.wait_for(i, "trains")) << ranks.output(i);
  ranks.signal(rank, signal);
  for (int i = 0; i < count; ++i) {
    if (i == rank) continue;
    EXPECT_TRUE(ranks.wait_for(i, "ranks " + std::to_string(rank) + ".", seconds(20)))
        << "rank " << i << ":\n"
        << ranks.output(i);
  }
  if (signal == SIGSTOP) ranks.signal(rank, SIGKILL);
  EXPECT_TRUE(ranks.wait(seconds(30)));
  for (int i = 0; i < count; ++i) {
    EXPECT_EQ(ranks.status(i), i == rank ? 128 + SIGKILL : 0) << ranks.output(i);
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Gone,
                         ::testing::Values(std::tuple(2, 1, SIGKILL), std::tuple(2, 0, SIGKILL),
                                           std::tuple(3, 2, SIGKILL), std::tuple(3, 1, SIGSTOP),
                                           std::tuple(2, 0, SIGSTOP)));

// --- a network that is cut
// -------------------------------------------------------------------------

constexpr seconds kToName{11};  // the time-out of TrainsUntilOneIsGone, and time to find who it is

void expect_named(const Ranks& ranks, int rank, const std::string& named) {
  EXPECT_TRUE(ranks.wait_for(rank, "ranks " + named + ".", kToName)) << "rank " << rank << ":\n"
                                                                     << ranks.output(rank);
}

struct Cut {
  const char* name;
  void (*cut)(Networks&);
  std::vector<const char*> named;  // by each of the ranks
};

class CutNetwork : public ::testing::TestWithParam<Cut> {};

TEST_P(CutNetwork, EndsAllRanksWhichNameThoseOutOfReach) {
  const auto& [name, cut, named] = GetParam();
  const auto count = static_cast<int>(named.size());
  Networks networks(count);
  if (!networks.missing().empty()) GTEST_SKIP() << networks.missing();
  Ranks ranks("DISABLED_Rank.TrainsUntilOneIsGone", count, {}, &networks);
  for (int i = 0; i < count; ++i) ASSERT_TRUE(ranks.wait_for(i, "trains")) << ranks.output(i);
  cut(networks);
  for (int i = 0; i < count; ++i) expect_named(ranks, i, named[i]);
  EXPECT_TRUE(ranks.wait(seconds(20))) << "they did not end";
  for (int i = 0; i < count; ++i) EXPECT_EQ(ranks.status(i), 0) << ranks.output(i);
}

INSTANTIATE_TEST_SUITE_P(
    At, CutNetwork,
    ::testing::Values(
        Cut{"one_of_two", [](Networks& networks) { networks.cut(1); }, {"1", "0"}},
        Cut{"one_of_three", [](Networks& networks) { networks.cut(2); }, {"2", "2", "0"}},
        // The others reach the store no more.
        Cut{"the_server", [](Networks& networks) { networks.cut(0); }, {"1 2", "0", "0"}}),
    [](const auto& info) { return info.param.name; });

// All reach the store, so only those who wait for each other know.
TEST(CutNetworks, BetweenTwoOfThreeRanksEndAll) {
  Networks networks(3);
  if (!networks.missing().empty()) GTEST_SKIP() << networks.missing();
  Ranks ranks("DISABLED_Rank.TrainsUntilOneIsGone", 3, {}, &networks);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(ranks.wait_for(i, "trains")) << ranks.output(i);
  networks.cut_between(1, 2);
  expect_named(ranks, 1, "2");
  expect_named(ranks, 2, "1");
  EXPECT_TRUE(ranks.wait(seconds(20))) << "they did not end";
  for (int i = 0; i < 3; ++i) EXPECT_EQ(ranks.status(i), 0) << ranks.output(i);
}

TEST(CutNetworks, ForAMomentStopNobody) {
  Networks networks(2);
  if (!networks.missing().empty()) GTEST_SKIP() << networks.missing();
  Ranks ranks("DISABLED_Rank.TrainsForSomeSeconds", 2, {}, &networks);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(ranks.wait_for(i, "trains")) << ranks.output(i);
  networks.cut(1);
  std::this_thread::sleep_for(milliseconds(500));
  networks.join(1);
  EXPECT_TRUE(ranks.wait(seconds(60))) << "they did not end";
  for (int i = 0; i < 2; ++i) EXPECT_EQ(ranks.status(i), 0) << ranks.output(i);
}

TEST(DISABLED_Rank, TrainsForSomeSeconds) {
  const auto group = ProcessGroup::of_environment({.timeout = seconds(10)});
  Training training(group);
  training.run(0);
  std::puts("trains");
  std::fflush(stdout);
  const auto begin = std::chrono::steady_clock::now();
  // All stop at the same step.
  while (group.mean(std::chrono::steady_clock::now() - begin < seconds(4) ? 1 : 0) > 0) {
    training.run(0);
  }
}

// --- a rank that does not come
// -------------------------------------------------------------------------

TEST(DISABLED_Rank, WaitsForOneThatNeverComes) {
  try {
    ProcessGroup::of_environment({.timeout = seconds(2)});
    FAIL();
  } catch (const DistributedError& error) {
    EXPECT_THAT(error.what(), HasSubstr("could not join"));
  }
}

TEST(ShardingErrors, OfAGroupThatIsNotComplete) {
  expect_on_ranks("DISABLED_Rank.WaitsForOneThatNeverComes", 2, {{"WORLD_SIZE", "3"}});
}

}  // namespace
}  // namespace antegrad::testing::sharding_errors_test
