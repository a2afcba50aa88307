#include <gmock/gmock.h>
#include <torch/serialize.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <random>

#include "distributed/models.h"
#include "distributed/networks.h"
#include "distributed/ranks.h"
#include "support/folder.h"

namespace antegrad::testing::sharded_checkpoint_test {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;
constexpr int64_t kSteps = 12;

struct NetImpl : torch::nn::Module {
  NetImpl()
      : up(register_module("up", torch::nn::Linear(7, 13))),
        norm(register_module("norm", torch::nn::BatchNorm1d(13))),
        down(register_module("down", torch::nn::Linear(13, 5))) {}
  at::Tensor forward(const at::Tensor& x) { return down(norm(up(x)).relu()); }
  torch::nn::Linear up;
  torch::nn::BatchNorm1d norm;
  torch::nn::Linear down;
};
TORCH_MODULE(Net);

std::string folder_here() { return std::getenv("ANTEGRAD_TEST_CHECKPOINT"); }

// The batch does not depend on the number of ranks: each sees the same data, so that the mean over
// any number of ranks, a power of two, has the same bits.
at::Tensor batch(int64_t step) {
  return at::randn({8, 7}, at::make_generator<at::CPUGeneratorImpl>(step + 1));
}

template <class Optimizer, class OptimizerOptions>
struct Training {
  explicit Training(const OptimizerOptions& options)
      : group(ProcessGroup::of_environment({.timeout = seconds(5)})),
        sharded(shard(net, group)),
        optimizer(sharded.parameters(), options) {}

  static Sharded shard(Net& net, const ProcessGroup& group) {
    at::manual_seed(5);
    net = Net();
    fully_shard(*net->up, group);
    return fully_shard(*net, group);
  }

  double step(int64_t number) {
    if (!function) {
      function.emplace(compile(net, loss));
    }
    optimizer.zero_grad();
    auto result = (*function)(batch(number));
    result.backward();
    optimizer.step();
    return result.template item<double>();
  }

  Net net{nullptr};
  ProcessGroup group;
  Sharded sharded;
  Optimizer optimizer;
  std::function<at::Tensor(const at::Tensor&)> loss = [this](const at::Tensor& x) {
    return net->forward(x).square().mean();
  };
  std::optional<Compiled<std::function<at::Tensor(const at::Tensor&)>>> function;
};

using WithAdamW = Training<torch::optim::AdamW, torch::optim::AdamWOptions>;
using WithSgd = Training<torch::optim::SGD, torch::optim::SGDOptions>;

void print_losses(double loss, int64_t step, const ProcessGroup& group) {
  if (group.rank() == 0) std::printf("loss %d %a\n", static_cast<int>(step), loss);
  std::fflush(stdout);
}

// Trains from the last checkpoint, saving one each two steps.
template <class Run, class OptimizerOptions>
void train_on(const OptimizerOptions& options, int64_t to) {
  Run run(options);
  const auto begin = load_checkpoint(folder_here(), run.sharded, &run.optimizer) + 1;
  for (int64_t step = begin; step < to; ++step) {
    print_losses(run.step(step), step, run.group);
    if (step % 2 == 1) save_checkpoint(folder_here(), run.sharded, &run.optimizer, step);
  }
}

int64_t last_step() { return std::stoll(std::getenv("ANTEGRAD_TEST_STEPS")); }
auto adamw() { return torch::optim::AdamWOptions(1e-2).amsgrad(true); }
auto sgd() { return torch::optim::SGDOptions(1e-2).momentum(0.9); }

TEST(DISABLED_Rank, TrainsOnAdamW) { train_on<WithAdamW>(adamw(), last_step()); }
TEST(DISABLED_Rank, TrainsOnSgd) { train_on<WithSgd>(sgd(), last_step()); }

// The lines of the losses, by step: the last one counts.
std::map<std::string, std::string> losses_in(const std::string& output) {
  std::map<std::string, std::string> losses;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("loss ")) continue;
    const auto space = line.find(' ', 5);
    losses[line.substr(5, space - 5)] = line.substr(space + 1);
  }
  return losses;
}

struct Ended {
  std::map<std::string, std::string> losses;
  std::string output;
};

Ended run(const std::string& test, int ranks, const std::string& folder, int64_t steps) {
  Ranks running(
      test, ranks,
      {{"ANTEGRAD_TEST_CHECKPOINT", folder}, {"ANTEGRAD_TEST_STEPS", std::to_string(steps)}});
  EXPECT_TRUE(running.wait());
  for (int rank = 0; rank < ranks; ++rank) {
    EXPECT_EQ(running.status(rank), 0) << running.output(rank);
  }
  return {losses_in(running.output(0)), running.output(0)};
}

class Checkpoints : public ::testing::TestWithParam<const char*> {};

TEST_P(Checkpoints, GoOnWithOtherNumbersOfRanks) {
  const std::string test = GetParam();
  const TemporaryFolder whole, parts;
  const auto wanted = run(test, 1, whole.path(), kSteps).losses;
  ASSERT_EQ(wanted.size(), static_cast<size_t>(kSteps));
  std::map<std::string, std::string> found;
  int64_t to = 0;
  for (const int ranks : {2, 4, 1, 2}) {
    to += 3;  // one step after the last checkpoint is lost, and made again
    for (const auto& [step, loss] : run(test, ranks, parts.path(), to).losses) found[step] = loss;
  }
  EXPECT_EQ(found, wanted);
}

INSTANTIATE_TEST_SUITE_P(Of, Checkpoints,
                         ::testing::Values("DISABLED_Rank.TrainsOnAdamW",
                                           "DISABLED_Rank.TrainsOnSgd"),
                         [](const auto& info) { return info.index == 0 ? "AdamW" : "Sgd"; });

TEST(Checkpoint, BecomesAFileOfTheWholeModule) {
  const TemporaryFolder folder;
  run("DISABLED_Rank.TrainsOnSgd", 2, folder.path(), 4);
  const auto file = folder.path() + "/model.pt";
  export_checkpoint(folder.path(), file);
  Net net;
  torch::load(net, file);
  WithSgd one(sgd());
  EXPECT_EQ(load_checkpoint(folder.path(), one.sharded, nullptr), 3);
  const auto full = one.sharded.unsharded();
  const at::NoGradGuard no_grad;
  for (const auto& parameter : net->named_parameters()) {
    EXPECT_TRUE(at::equal(parameter.value(), one.net->named_parameters()[parameter.key()]))
        << parameter.key();
  }
  for (const auto& buffer : net->named_buffers()) {
    EXPECT_TRUE(at::equal(buffer.value(), one.net->named_buffers()[buffer.key()])) << buffer.key();
  }
}

// One rank is killed at a random moment; then all start again.
TEST(Checkpoint, SurvivesRanksThatAreKilled) {
  const TemporaryFolder whole, folder;
  const auto wanted = run("DISABLED_Rank.TrainsOnAdamW", 2, whole.path(), kSteps).losses;
  std::random_device device;
  const auto seed = device();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  std::map<std::string, std::string> found;
  for (int attempt = 0; attempt < 4; ++attempt) {
    Ranks running("DISABLED_Rank.TrainsOnAdamW", 2,
                  {{"ANTEGRAD_TEST_CHECKPOINT", folder.path()},
                   {"ANTEGRAD_TEST_STEPS", std::to_string(kSteps)}});
    running.wait_for(0, "loss", seconds(20));
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 60));
    running.signal(static_cast<int>(random() % 2), SIGKILL);
    EXPECT_TRUE(running.wait(seconds(30)));
    for (const auto& [step, loss] : losses_in(running.output(0))) found[step] = loss;
  }
  for (const auto& [step, loss] :
       run("DISABLED_Rank.TrainsOnAdamW", 2, folder.path(), kSteps).losses) {
    found[step] = loss;
  }
  EXPECT_EQ(found, wanted);
}

// The network is cut at a random moment; then all start again.
TEST(Checkpoint, SurvivesACutNetwork) {
  Networks networks(2);
  if (!networks.missing().empty()) GTEST_SKIP() << networks.missing();
  const TemporaryFolder whole, folder;
  const auto wanted = run("DISABLED_Rank.TrainsOnAdamW", 2, whole.path(), kSteps).losses;
  std::random_device device;
  const auto seed = device();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const Ranks::Environment environment = {{"ANTEGRAD_TEST_CHECKPOINT", folder.path()},
                                          {"ANTEGRAD_TEST_STEPS", std::to_string(kSteps)}};
  std::map<std::string, std::string> found;
  const auto add = [&](const Ranks& ended) {
    for (const auto& [step, loss] : losses_in(ended.output(0))) found[step] = loss;
  };
  for (int attempt = 0; attempt < 2; ++attempt) {
    Ranks running("DISABLED_Rank.TrainsOnAdamW", 2, environment, &networks);
    EXPECT_TRUE(running.wait_for(0, "loss", seconds(20))) << running.output(0);
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 30));
    networks.cut(1);
    EXPECT_TRUE(running.wait(seconds(30))) << "they did not end";
    add(running);
    for (int rank = 0; rank < 2; ++rank) {
      if (running.status(rank) == 0) continue;  // it was done before
      EXPECT_THAT(running.output(rank), HasSubstr("that rank " + std::to_string(1 - rank)));
    }
    networks.join(1);
  }
  Ranks last("DISABLED_Rank.TrainsOnAdamW", 2, environment, &networks);
  EXPECT_TRUE(last.wait());
  for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(last.status(rank), 0) << last.output(rank);
  add(last);
  EXPECT_EQ(found, wanted);
}

TEST(Checkpoint, ErrorsChangeNothing) {
  const TemporaryFolder folder;
  WithSgd one(sgd());
  EXPECT_EQ(load_checkpoint(folder.path(), one.sharded, &one.optimizer), -1);
  one.step(0);
  save_checkpoint(folder.path(), one.sharded, &one.optimizer, 0);
  one.step(1);
  const auto before = one.sharded.parameters()[0].detach().clone();
  const auto message = [&](const Sharded& sharded, torch::optim::Optimizer* optimizer) {
    try {
      load_checkpoint(folder.path(), sharded, optimizer);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string();
  };

  torch::optim::Adam adam(one.sharded.parameters());
  EXPECT_THAT(message(one.sharded, &adam), HasSubstr("expected a checkpoint of Adam"));
  torch::nn::Linear other(3, 3);
  EXPECT_THAT(message(fully_shard(*other, one.group), nullptr),
              HasSubstr("a checkpoint of 1 units"));
  torch::optim::LBFGS lbfgs(one.sharded.parameters());
  EXPECT_THAT(message(one.sharded, &lbfgs), HasSubstr("an optimizer of another class"));

  // A byte that differs.
  const auto file = folder.path() + "/step-0/rank-0.bin";
  std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
  bytes.seekp(40);
  bytes.put('!');
  bytes.close();
  EXPECT_THAT(message(one.sharded, &one.optimizer), HasSubstr("not those written"));
  std::filesystem::resize_file(file, 10);
  EXPECT_THAT(message(one.sharded, &one.optimizer), HasSubstr("not those written"));
  std::filesystem::resize_file(folder.path() + "/step-0/manifest.json", 10);
  EXPECT_THAT(message(one.sharded, &one.optimizer), HasSubstr("manifest.json"));
  EXPECT_TRUE(at::equal(one.sharded.parameters()[0], before));

  // No room for a new one: the old one stays.
  const TemporaryFolder other_folder;
  save_checkpoint(other_folder.path(), one.sharded, &one.optimizer, 7);
  EXPECT_THROW(save_checkpoint("/proc/nowhere", one.sharded, &one.optimizer, 8), InputError);
  EXPECT_EQ(load_checkpoint(other_folder.path(), one.sharded, &one.optimizer), 7);
}

}  // namespace
}  // namespace antegrad::testing::sharded_checkpoint_test
