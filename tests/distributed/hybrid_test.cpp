// Sharded within groups of ranks, and replicated over them.

#include <gmock/gmock.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>

#include "distributed/models.h"
#include "distributed/ranks.h"
#include "support/folder.h"

namespace antegrad::testing::hybrid_sharding_test {
namespace {

using List = std::vector<at::Tensor>;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;
constexpr int kSteps = 3;
constexpr int kRanks = 4, kWithin = 2;
constexpr double kRate = 1e-2;

enum class Way : uint8_t { call, step, compiled_backward };

struct Case {
  ShardOptions shard = {};
  Options options = {};
  Way way = Way::call;
};

const std::map<std::string, Case>& cases() {
  static const auto* const all = new std::map<std::string, Case>{
      {"usual", {}},
      {"kept", {.shard = {.regather = false}}},
      {"half", {.shard = {.gather_dtype = at::kBFloat16, .reduce_dtype = at::kFloat}}},
      {"budget", {.options = Options().with_memory_share(0)}},
      {"whole_step", {.way = Way::step}},
      {"compiled_backward", {.way = Way::compiled_backward}},
  };
  return *all;
}

const Case& case_here() { return cases().at(std::getenv("ANTEGRAD_SHARDED_CASE")); }

List gradients_of_rank(Model& model, const Case& one, int rank, int step) {
  Model used;
  copy_values(model, used);
  if (one.shard.gather_dtype) used->to(*one.shard.gather_dtype);
  const auto batch = batch_of(rank, step);
  loss_of(used, batch.tokens, batch.targets).backward();
  return gradients_of(used);
}

// By libtorch alone: the sums of groups, in the order of their ranks, added up in the order of the
// groups.
List expected(const Case& one, int steps) {
  at::manual_seed(0);
  Model model;
  const auto parameters = model->parameters();
  torch::optim::AdamW optimizer(parameters, torch::optim::AdamWOptions(kRate));
  for (int step = 0; step < steps; ++step) {
    std::vector<List> of_ranks;
    for (int rank = 0; rank < kRanks; ++rank) {
      of_ranks.push_back(gradients_of_rank(model, one, rank, step));
    }
    for (size_t i = 0; i < parameters.size(); ++i) {
      List sums;
      for (int first = 0; first < kRanks; first += kWithin) {
        List of_group;
        for (int rank = first; rank < first + kWithin; ++rank) {
          of_group.push_back(of_ranks[rank][i]);
        }
        sums.push_back(at::stack(of_group).sum(0));
      }
      parameters[i].mutable_grad() = at::stack(sums).sum(0).mul(1.0 / kRanks);
    }
    optimizer.step();
  }
  return parameters;
}

void expect_parameters(const Model& model, const Sharded& sharded, const List& wanted) {
  const auto full = sharded.unsharded();
  expect_bits(model, wanted);
}

ProcessGroup::Split groups() {
  return ProcessGroup::of_environment({.timeout = seconds(5)}).split(kWithin);
}

TEST(DISABLED_Rank, TrainsAsAReplica) {
  const auto& one = case_here();
  const auto world = ProcessGroup::of_environment();
  const auto wanted = expected(one, kSteps);
  const auto [within, across] = world.split(kWithin);
  EXPECT_EQ(within.size(), kWithin);
  EXPECT_EQ(within.rank(), world.rank() % kWithin);
  EXPECT_EQ(across.size(), kRanks / kWithin);
  EXPECT_EQ(across.rank(), world.rank() / kWithin);

  at::manual_seed(world.rank());  // rank 0's parameters count
  Model model;
  auto shard = one.shard;
  shard.replicas = across;
  const auto sharded = shard_blocks(model, within, shard);
  const auto loss = [model](const at::Tensor& tokens, const at::Tensor& targets) mutable {
    return loss_of(model, tokens, targets);
  };
  auto options = one.options;
  options.with_verify_graphs(true);
  torch::optim::AdamW optimizer(sharded.parameters(), torch::optim::AdamWOptions(kRate));
  std::optional<CompiledBackward> backward;
  if (one.way == Way::compiled_backward) backward.emplace();
  auto call = compile(model, loss, options);
  auto whole = compile_step(model, optimizer, loss, options);
  int64_t bytes = 0;  // of all parameters, with padding
  for (const auto& part : sharded.parameters()) {
    bytes += static_cast<int64_t>(part.nbytes()) * kWithin;
  }
  for (int step = 0; step < kSteps; ++step) {
    const auto batch = batch_of(world.rank(), step);
    const auto before = within.stats(), before_across = across.stats();
    if (one.way == Way::step) {
      whole(batch.tokens, batch.targets);
    } else {
      optimizer.zero_grad();
      call(batch.tokens, batch.targets).backward();
      optimizer.step();
    }
    // An exchange of a part, and a gather of it.
    EXPECT_EQ(across.stats().bytes - before_across.bytes, 2 * bytes / kWithin);
    if (one.way == Way::step || one.options.partition == Partitioner::budget) continue;
    const int64_t gathered = one.shard.gather_dtype ? bytes / 2 : bytes;
    EXPECT_EQ(within.stats().bytes - before.bytes, (one.shard.regather ? 2 : 1) * gathered + bytes);
  }
  const auto report = one.way == Way::step ? whole.report() : call.report();
  EXPECT_EQ(report.eager_calls, 0);
  EXPECT_EQ(report.compiled_calls, kSteps);
  // The norm is the same on all replicas.
  const auto norm = sharded.clip_grad_norm_(1e-3);
  EXPECT_EQ(world.mean(norm), norm);
  expect_parameters(model, sharded, wanted);
}

class Hybrid : public ::testing::TestWithParam<std::string> {};

TEST_P(Hybrid, HasTheBitsOfSumsWithinAndThenAcross) {
  expect_on_ranks("DISABLED_Rank.TrainsAsAReplica", kRanks,
                  {{"ANTEGRAD_SHARDED_CASE", GetParam()}});
}

INSTANTIATE_TEST_SUITE_P(Of, Hybrid, ::testing::ValuesIn(names_of(cases())),
                         [](const auto& info) { return info.param; });

// --- checkpoints
// -----------------------------------------------------------------------------------

struct Training {
  explicit Training(const ProcessGroup::Split& groups)
      : sharded(shard_blocks(model, groups.within, {.replicas = groups.across})),
        optimizer(sharded.parameters(), torch::optim::AdamWOptions(kRate)),
        loss([this](const at::Tensor& tokens, const at::Tensor& targets) {
          return loss_of(model, tokens, targets);
        }),
        call(compile(model, loss)) {}

  void run(int rank, int step) {
    const auto batch = batch_of(rank, step);
    optimizer.zero_grad();
    call(batch.tokens, batch.targets).backward();
    optimizer.step();
  }

  Model model = [] {
    at::manual_seed(0);
    return Model();
  }();
  Sharded sharded;
  torch::optim::AdamW optimizer;
  std::function<at::Tensor(const at::Tensor&, const at::Tensor&)> loss;
  Compiled<std::function<at::Tensor(const at::Tensor&, const at::Tensor&)>> call;
};

TEST(DISABLED_Rank, SavesOneReplica) {
  const std::string folder = std::getenv("ANTEGRAD_TEST_CHECKPOINT");
  const auto split = groups();
  const int rank = split.across.rank() * kWithin + split.within.rank();
  Training training(split);
  training.run(rank, 0);
  training.run(rank, 1);
  save_checkpoint(folder, training.sharded, &training.optimizer, 1);
  std::vector<std::string> files;
  for (const auto& file : std::filesystem::directory_iterator(folder + "/step-1")) {
    files.push_back(file.path().filename());
  }
  EXPECT_THAT(files,
              UnorderedElementsAre("manifest.json", "rank-0.bin", "rank-1.bin", "buffers.bin"));
  training.run(rank, 5);
  EXPECT_EQ(load_checkpoint(folder, training.sharded, &training.optimizer), 1);
  training.run(rank, 2);
  expect_parameters(training.model, training.sharded, expected({}, 3));
  // What one rank of one replica cannot do is an error of all.
  EXPECT_THROW(save_checkpoint("/proc/nowhere", training.sharded, nullptr, 2), InputError);
}

TEST(HybridCheckpoint, IsWrittenByOneReplicaAndReadByAnyNumberOfRanks) {
  const TemporaryFolder folder;
  expect_on_ranks("DISABLED_Rank.SavesOneReplica", kRanks,
                  {{"ANTEGRAD_TEST_CHECKPOINT", folder.path()}});
  Training alone(ProcessGroup::of_environment().split(1));
  const int threads = at::get_num_threads();
  at::set_num_threads(1);  // as ranks have: sums of more have other bits
  EXPECT_EQ(load_checkpoint(folder.path(), alone.sharded, &alone.optimizer), 1);
  expect_parameters(alone.model, alone.sharded, expected({}, 2));
  at::set_num_threads(threads);
}

// --- errors
// ----------------------------------------------------------------------------------------

TEST(DISABLED_Rank, SplitsInVain) {
  const auto world = ProcessGroup::of_environment({.timeout = seconds(5)});
  EXPECT_THAT(message_of<Error>([&] { world.split(3); }), HasSubstr("divides the 4 ranks"));
  EXPECT_THAT(message_of<Error>([&] { world.split(0); }), HasSubstr("divides the 4 ranks"));
  const auto first = world.split(2), second = first.within.split(1);
  EXPECT_NE(first.within.name(), second.across.name());
  EXPECT_EQ(second.across.mean(world.rank()), first.within.mean(world.rank()));
  // Replicas that do not hold the same parts.
  torch::nn::Linear model(3, 3);
  EXPECT_THAT(
      message_of<Error>([&] { fully_shard(*model, first.within, {.replicas = first.within}); }),
      HasSubstr("in its group"));
  EXPECT_TRUE(model->weight.sum().isfinite().item<bool>());
  fully_shard(*model, first.within, {.replicas = first.across});
  torch::nn::Sequential more(model, torch::nn::Linear(3, 3));
  EXPECT_THAT(message_of<Error>([&] { fully_shard(*more, world); }),
              HasSubstr("sharded over others"));
  // Ranks are named as in the group that was split.
  torch::nn::Linear other(3, world.rank() % 2 == 0 ? 3 : 4);
  try {
    fully_shard(*other, first.within);
    FAIL();
  } catch (const DistributedError& error) {
    EXPECT_THAT(error.ranks(), ElementsAre(world.rank() < 2 ? 1 : 3));
  }
}

TEST(HybridErrors, OfGroupsThatDoNotFit) { expect_on_ranks("DISABLED_Rank.SplitsInVain", 4); }

TEST(DISABLED_Rank, IsAReplicaUntilOneIsGone) {
  const auto split = groups();
  const int rank = split.across.rank() * kWithin + split.within.rank();
  Training training(split);
  training.run(rank, 0);
  std::puts("trains");
  std::fflush(stdout);
  try {
    while (true) training.run(rank, 0);
  } catch (const DistributedError& error) {
    std::printf("ranks");
    for (const int32_t other : error.ranks()) std::printf(" %d", other);
    std::printf(".\n%s\n", error.what());
  }
}

TEST(HybridErrors, NameTheRankThatIsGone) {
  constexpr int kGone = 3;
  Ranks ranks("DISABLED_Rank.IsAReplicaUntilOneIsGone", kRanks);
  for (int i = 0; i < kRanks; ++i) ASSERT_TRUE(ranks.wait_for(i, "trains")) << ranks.output(i);
  ranks.signal(kGone, SIGKILL);
  for (int i = 0; i < kGone; ++i) {
    EXPECT_TRUE(ranks.wait_for(i, "ranks 3.", seconds(20))) << "rank " << i << ":\n"
                                                            << ranks.output(i);
  }
  EXPECT_TRUE(ranks.wait(seconds(30)));
  for (int i = 0; i < kGone; ++i) EXPECT_EQ(ranks.status(i), 0) << ranks.output(i);
}

}  // namespace
}  // namespace antegrad::testing::hybrid_sharding_test
