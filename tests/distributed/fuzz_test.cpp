// Random modules, wrapped, frozen and shared at random, on two ranks beside libtorch alone.

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <set>
#include <string>

#include "distributed/models.h"
#include "distributed/ranks.h"
#include "support/long_tests.h"

namespace antegrad::testing::sharding_fuzz_test {
namespace {

using List = std::vector<at::Tensor>;
constexpr int64_t kWidth = 12;
constexpr int kSteps = 2;

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  int64_t below(int64_t count) {
    return std::uniform_int_distribution<int64_t>(0, count - 1)(engine_);
  }
  bool chance(int64_t percent) { return below(100) < percent; }

 private:
  std::mt19937_64 engine_;
};

/// A layer, or several in a row. Maps rows of kWidth numbers to such rows.
struct PartImpl : torch::nn::Module {
  enum Kind : int64_t { linear, norm, residual, row, scale, kKinds };

  /// `weights`: of linear layers before, which may be used again.
  PartImpl(Random& random, int64_t depth, List& weights) : kind(Kind(random.below(kKinds))) {
    if (kind == row && depth == 0) kind = linear;
    if (kind == row) {
      const auto count = 1 + random.below(3);
      for (int64_t i = 0; i < count; ++i) {
        inner.push_back(register_module("part" + std::to_string(i),
                                        std::make_shared<PartImpl>(random, depth - 1, weights)));
      }
    } else if (kind == norm) {
      weight = register_parameter("weight", at::rand({kWidth}) + 0.5);
      bias = register_parameter("bias", at::rand({kWidth}));
    } else if (kind == scale) {
      weight = register_parameter("weight", at::rand({1}) + 0.5);
    } else {
      const bool shares = !weights.empty() && random.chance(20);
      weight = register_parameter(
          "weight", shares ? weights[random.below(static_cast<int64_t>(weights.size()))]
                           : at::randn({kWidth, kWidth}) / 4);
      if (!shares) weights.push_back(weight);
      if (random.chance(60)) bias = register_parameter("bias", at::randn({kWidth}));
    }
    if (weight.defined() && random.chance(15)) weight.set_requires_grad(false);
  }

  at::Tensor forward(const at::Tensor& x) {
    switch (kind) {
      case linear: return at::linear(x, weight, bias);
      case norm: return at::layer_norm(x, {kWidth}, weight, bias);
      case residual: return x + at::gelu(at::linear(x, weight, bias));
      case scale: return (x * weight).tanh();
      default: break;
    }
    auto y = x;
    for (const auto& part : inner) y = part->forward(y);
    return y;
  }

  Kind kind;
  at::Tensor weight, bias;
  std::vector<std::shared_ptr<PartImpl>> inner;
};

struct Subject {
  explicit Subject(uint64_t seed) : random(seed) {
    at::manual_seed(seed);
    List weights;
    const auto count = 2 + random.below(4);
    for (int64_t i = 0; i < count; ++i) {
      parts.push_back(module.register_module("part" + std::to_string(i),
                                             std::make_shared<PartImpl>(random, 2, weights)));
    }
    // Something that is always trained.
    last = module.register_parameter("last", at::rand({kWidth}) + 0.5);
    half = random.chance(25);
  }

  at::Tensor loss(at::Tensor x) {
    if (half) x = x.to(at::kBFloat16);
    for (const auto& part : parts) x = part->forward(x);
    return (x * last).square().mean().to(at::kFloat);
  }

  /// Each once.
  List parameters() const {
    List found;
    std::set<const c10::TensorImpl*> seen;
    for (const auto& parameter : module.parameters()) {
      if (seen.insert(parameter.unsafeGetTensorImpl()).second) found.push_back(parameter);
    }
    return found;
  }

  Random random;
  torch::nn::Module module;
  std::vector<std::shared_ptr<PartImpl>> parts;
  at::Tensor last;
  bool half = false;
};

at::Tensor input_of(uint64_t seed, int64_t rank, int64_t step) {
  return at::randn({6, kWidth},
                   at::make_generator<at::CPUGeneratorImpl>(seed * 64 + step * 8 + rank));
}

torch::optim::AdamWOptions optimizer_options() {
  return torch::optim::AdamWOptions(1e-2).weight_decay(0.1);
}

List expected(uint64_t seed, int ranks) {
  Subject subject(seed);
  const auto parameters = subject.parameters();
  torch::optim::AdamW optimizer(parameters, optimizer_options());
  for (int step = 0; step < kSteps; ++step) {
    std::vector<List> gradients(parameters.size());
    for (int rank = 0; rank < ranks; ++rank) {
      Subject used(seed);
      {
        const at::NoGradGuard no_grad;
        const auto copies = used.parameters();
        for (size_t i = 0; i < copies.size(); ++i) copies[i].copy_(parameters[i]);
      }
      if (used.half) used.module.to(at::kBFloat16);
      used.loss(input_of(seed, rank, step)).backward();
      const auto found = used.parameters();
      for (size_t i = 0; i < found.size(); ++i) {
        if (found[i].grad().defined()) gradients[i].push_back(found[i].grad().to(at::kFloat));
      }
    }
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (gradients[i].empty()) continue;
      parameters[i].mutable_grad() =
          ranks == 1 ? gradients[i][0] : at::stack(gradients[i]).sum(0).mul(1.0 / ranks);
    }
    optimizer.step();
  }
  return parameters;
}

// Some parts become units of their own, from the inside.
void shard_some(PartImpl& part, Random& random, const ProcessGroup& group,
                const ShardOptions& options) {
  for (const auto& inner : part.inner) shard_some(*inner, random, group, options);
  if (random.chance(40)) fully_shard(part, group, options);
}

void train(uint64_t seed, const ProcessGroup& group) {
  const auto wanted = expected(seed, group.size());
  Subject subject(seed);
  Random random(seed + 1);
  ShardOptions shard;
  shard.regather = random.chance(70);
  if (subject.half) {
    shard.gather_dtype = at::kBFloat16;
    shard.reduce_dtype = at::kFloat;
  }
  for (const auto& part : subject.parts) shard_some(*part, random, group, shard);
  const auto sharded = fully_shard(subject.module, group, shard);
  List trained;
  for (const auto& parameter : sharded.parameters()) {
    if (parameter.requires_grad()) trained.push_back(parameter);
  }
  torch::optim::AdamW optimizer(trained, optimizer_options());
  auto options = Options().with_verify_graphs(true).with_gather_prefetch(random.below(4));
  if (random.chance(25)) options.with_partition(Partitioner::min_cut);
  if (random.chance(25)) options.with_memory_share(random.chance(50) ? 0 : 0.5);
  auto step = compile([&](const at::Tensor& x) { return subject.loss(x); }, options);
  for (int i = 0; i < kSteps; ++i) {
    optimizer.zero_grad();
    step(input_of(seed, group.rank(), i)).backward();
    optimizer.step();
  }
  EXPECT_EQ(step.report().eager_calls, 0);
  const auto full = sharded.unsharded();
  const at::NoGradGuard no_grad;
  const auto found = subject.parameters();
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_TRUE(at::equal(found[i], wanted[i])) << "parameter " << i;
  }
}

uint64_t number(const char* name, uint64_t usual) {
  const char* const text = std::getenv(name);
  return text == nullptr ? usual : std::strtoull(text, nullptr, 10);
}

TEST(DISABLED_Rank, TrainsRandomModules) {
  const auto group = ProcessGroup::of_environment();
  const auto first = number("ANTEGRAD_FUZZ_SEED", 0);
  const auto count = number("ANTEGRAD_FUZZ_COUNT", 1);
  for (uint64_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE("ANTEGRAD_FUZZ_SEED=" + std::to_string(seed) + " ANTEGRAD_FUZZ_COUNT=1");
    train(seed, group);
    if (::testing::Test::HasFailure()) break;
  }
}

TEST(ShardingFuzz, RandomModulesHaveTheBitsOfLibtorchAlone) {
  std::random_device device;
  const auto seed = std::to_string(number("ANTEGRAD_FUZZ_SEED", device() % 1'000'000));
  const auto count = std::to_string(number("ANTEGRAD_FUZZ_COUNT", long_tests() ? 200 : 12));
  expect_on_ranks("DISABLED_Rank.TrainsRandomModules", 2,
                  {{"ANTEGRAD_FUZZ_SEED", seed}, {"ANTEGRAD_FUZZ_COUNT", count}});
}

}  // namespace
}  // namespace antegrad::testing::sharding_fuzz_test
