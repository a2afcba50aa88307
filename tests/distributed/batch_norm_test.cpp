// Batch norm over the batches of all ranks: against one process that has them all, in double
// precision, and against the formulas of PyTorch's SyncBatchNorm.

#include <gmock/gmock.h>
#include <torch/csrc/autograd/autograd.h>

#include <cstdlib>
#include <map>
#include <string>

#include "distributed/models.h"
#include "distributed/ranks.h"

namespace antegrad::testing::synchronised_batch_norm_test {
namespace {

using List = std::vector<at::Tensor>;
using ::testing::HasSubstr;
constexpr int kSteps = 3;
constexpr double kRate = 0.1;

struct NetImpl : torch::nn::Module {
  NetImpl()
      : convolution(register_module(
            "convolution", torch::nn::Conv2d(torch::nn::Conv2dOptions(2, 6, 3).padding(1)))),
        norm(register_module("norm", torch::nn::BatchNorm2d(6))),
        up(register_module("up", torch::nn::Linear(6, 5))),
        last(register_module(
            "last", torch::nn::BatchNorm1d(torch::nn::BatchNorm1dOptions(5).affine(false)))) {}
  at::Tensor forward(const at::Tensor& x) {
    return last(up(norm(convolution(x)).relu().mean(at::IntArrayRef({2, 3}))));
  }
  torch::nn::Conv2d convolution;
  torch::nn::BatchNorm2d norm;
  torch::nn::Linear up;
  torch::nn::BatchNorm1d last;
};
TORCH_MODULE(Net);

enum class Kind : uint8_t { replicated, sharded, hybrid };

struct Case {
  Kind kind = Kind::replicated;
  Options options = {};
  bool compiled_backward = false;
  bool whole_step = false;
  at::ScalarType dtype = at::kFloat;
  /// Of what is found from what is expected, as a part of the greatest element.
  double tolerance = 1e-5;
};

const std::map<std::string, Case>& cases() {
  static const auto* const all = new std::map<std::string, Case>{
      {"replicated", {}},
      {"double", {.dtype = at::kDouble, .tolerance = 1e-13}},
      {"min_cut", {.options = Options().with_partition(Partitioner::min_cut)}},
      {"budget", {.options = Options().with_memory_share(0)}},
      {"whole_step", {.whole_step = true}},
      {"compiled_backward", {.compiled_backward = true}},
      {"sharded", {.kind = Kind::sharded}},
      {"hybrid", {.kind = Kind::hybrid}},
  };
  return *all;
}

const Case& case_here() { return cases().at(std::getenv("ANTEGRAD_SHARDED_CASE")); }

struct Samples {
  at::Tensor x, y;
};

Samples samples_of(int rank, int step, at::ScalarType dtype) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(100 * step + rank);
  // Ranks differ in mean and spread.
  return {(at::randn({6, 2, 4, 4}, generator, at::kDouble) * (1 + rank) + 2 * rank).to(dtype),
          at::randn({6, 5}, generator, at::kDouble).to(dtype)};
}

at::Tensor loss_of(Net& net, const at::Tensor& x, const at::Tensor& y) {
  return (net->forward(x) - y).square().mean();
}

Net new_net(at::ScalarType dtype) {
  at::manual_seed(0);
  Net net;
  {
    const at::NoGradGuard no_grad;
    net->norm->weight.copy_(at::linspace(0.5, 1.5, 6));
    net->norm->bias.copy_(at::linspace(-0.3, 0.3, 6));
  }
  net->to(dtype);
  return net;
}

// One process, in double precision, with the batches of all ranks at once.
Net trained_alone(int ranks) {
  auto net = new_net(at::kDouble);
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(kRate).momentum(0.9));
  for (int step = 0; step < kSteps; ++step) {
    List x, y;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto samples = samples_of(rank, step, at::kDouble);
      x.push_back(samples.x);
      y.push_back(samples.y);
    }
    optimizer.zero_grad();
    loss_of(net, at::cat(x), at::cat(y)).backward();
    optimizer.step();
  }
  return net;
}

void expect_near(const std::string& name, const at::Tensor& found, const at::Tensor& wanted,
                 double tolerance) {
  const auto difference = (found.to(at::kDouble) - wanted.to(at::kDouble)).abs().max();
  const auto scale = wanted.to(at::kDouble).abs().max();
  EXPECT_LE(difference.item<double>(), tolerance * scale.item<double>()) << name;
}

TEST(DISABLED_Rank, NormalisesOverAllBatches) {
  const auto& one = case_here();
  const auto world = ProcessGroup::of_environment();
  auto wanted = trained_alone(world.size());
  auto net = new_net(one.dtype);
  const auto synchronised = synchronise_batch_norm(*net, world);
  EXPECT_EQ(synchronised.layers(), 2);
  std::optional<Sharded> sharded;
  std::optional<Replicated> replicated;
  switch (one.kind) {
    case Kind::replicated: replicated = replicate(*net, world); break;
    case Kind::sharded: sharded = fully_shard(*net, world); break;
    case Kind::hybrid: {
      const auto split = world.split(world.size() / 2);
      sharded = fully_shard(*net, split.within, {.replicas = split.across});
    }
  }
  const auto loss = [net](const at::Tensor& x, const at::Tensor& y) mutable {
    return loss_of(net, x, y);
  };
  auto options = one.options;
  options.with_verify_graphs(true);
  torch::optim::SGD optimizer(sharded ? sharded->parameters() : net->parameters(),
                              torch::optim::SGDOptions(kRate).momentum(0.9));
  std::optional<CompiledBackward> backward;
  if (one.compiled_backward) backward.emplace();
  auto call = compile(net, loss, options);
  auto whole = compile_step(net, optimizer, loss, options);
  for (int step = 0; step < kSteps; ++step) {
    const auto samples = samples_of(world.rank(), step, one.dtype);
    if (one.whole_step) {
      whole(samples.x, samples.y);
      continue;
    }
    optimizer.zero_grad();
    call(samples.x, samples.y).backward();
    optimizer.step();
  }
  const auto report = one.whole_step ? whole.report() : call.report();
  EXPECT_EQ(report.eager_calls, 0);
  EXPECT_EQ(report.compiled_calls, kSteps);
  std::optional<Sharded::Unsharded> full;
  if (sharded) full.emplace(sharded->unsharded());
  const at::NoGradGuard no_grad;
  const auto parameters = wanted->named_parameters();
  for (const auto& found : net->named_parameters()) {
    expect_near(found.key(), found.value(), parameters[found.key()], one.tolerance);
  }
  const auto buffers = wanted->named_buffers();
  for (const auto& found : net->named_buffers()) {
    expect_near(found.key(), found.value(), buffers[found.key()], one.tolerance);
  }
  // In evaluation, the layers do what they always do.
  net->eval();
  wanted->eval();
  const auto x = samples_of(0, 9, one.dtype).x;
  const auto sent = world.stats().collectives;
  expect_near("evaluation", net->forward(x), wanted->forward(x.to(at::kDouble)),
              10 * one.tolerance);
  EXPECT_EQ(world.stats().collectives, sent);
}

class Normalisation : public ::testing::TestWithParam<std::tuple<int, std::string>> {};

TEST_P(Normalisation, IsThatOfOneProcessWithAllBatches) {
  const auto& [ranks, name] = GetParam();
  expect_on_ranks("DISABLED_Rank.NormalisesOverAllBatches", ranks,
                  {{"ANTEGRAD_SHARDED_CASE", name}});
}

INSTANTIATE_TEST_SUITE_P(Ranks, Normalisation,
                         ::testing::Combine(::testing::Values(2, 4),
                                            ::testing::ValuesIn(names_of(cases()))),
                         CaseOnRanks());

// --- one layer: gradients of inputs, batches of different sizes, mixed precision
// ----------------------------------------------------------------------------------

// What PyTorch's SyncBatchNorm computes, from the inputs and tangents of all ranks, in double
// precision: torch/nn/modules/_functions.py.
struct Formulas {
  Formulas(const List& inputs, const List& tangents, const at::Tensor& weight,
           const at::Tensor& bias, double momentum, double epsilon) {
    const std::vector<int64_t> dims = {0, 2};
    const auto beside = [](const at::Tensor& values) { return values.view({1, -1, 1}); };
    const auto all = at::cat(inputs), dy = at::cat(tangents);
    const auto count = static_cast<double>(all.numel()) / static_cast<double>(all.size(1));
    const auto mean = all.mean(dims), var = all.var(dims, /*unbiased=*/false);
    const auto invstd = (var + epsilon).rsqrt();
    running_mean = momentum * mean;
    running_var = (1 - momentum) + momentum * var * (count / (count - 1));
    const auto sum_dy = dy.sum(dims), sum_dy_xmu = (dy * (all - beside(mean))).sum(dims);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const auto centred = inputs[i] - beside(mean);
      outputs.push_back(centred * beside(invstd * weight) + beside(bias));
      of_input.push_back((tangents[i] - beside(sum_dy / count) -
                          centred * beside(invstd * invstd * sum_dy_xmu / count)) *
                         beside(invstd * weight));
      of_weight.push_back((tangents[i] * centred).sum(dims) * invstd);
      of_bias.push_back(tangents[i].sum(dims));
    }
  }
  List outputs, of_input, of_weight, of_bias;
  at::Tensor running_mean, running_var;
};

at::Tensor input_of(int rank) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(rank);
  return at::randn({3 + 2 * rank, 4, 5}, generator, at::kDouble) + rank;
}

TEST(DISABLED_Rank, HasTheFormulasOfPyTorch) {
  const auto world = ProcessGroup::of_environment();
  for (const auto& [dtype, tolerance] :
       {std::pair(at::kDouble, 1e-14), {at::kFloat, 1e-6}, {at::kBFloat16, 2e-2}}) {
    SCOPED_TRACE(dtype);
    torch::nn::BatchNorm1d layer(torch::nn::BatchNorm1dOptions(4).momentum(0.3).eps(1e-3));
    {
      const at::NoGradGuard no_grad;
      layer->weight.copy_(at::linspace(-1, 2, 4));
      layer->bias.copy_(at::linspace(0, 1, 4));
    }
    if (dtype == at::kDouble) layer->to(dtype);
    const auto synchronised = synchronise_batch_norm(*layer, world);
    List inputs, tangents;
    for (int rank = 0; rank < world.size(); ++rank) {
      inputs.push_back(input_of(rank).to(dtype).to(at::kDouble));
      tangents.push_back(input_of(rank).cos().to(dtype).to(at::kDouble));
    }
    const Formulas wanted(inputs, tangents, at::linspace(-1, 2, 4).to(at::kDouble),
                          at::linspace(0, 1, 4).to(at::kDouble), 0.3, 1e-3);
    auto call = compile(layer, [&](const at::Tensor& x) { return layer->forward(x); });
    const auto here = world.rank();
    const auto x = inputs[here].to(dtype).requires_grad_();
    const auto y = call(x);
    EXPECT_EQ(y.scalar_type(), dtype);
    y.backward(tangents[here].to(dtype));
    EXPECT_EQ(call.report().eager_calls, 0);
    expect_near("output", y, wanted.outputs[here], tolerance);
    expect_near("gradient of the input", x.grad(), wanted.of_input[here], tolerance);
    expect_near("of the weight", layer->weight.grad(), wanted.of_weight[here], tolerance);
    expect_near("of the bias", layer->bias.grad(), wanted.of_bias[here], tolerance);
    expect_near("running mean", layer->running_mean, wanted.running_mean, tolerance);
    expect_near("running variance", layer->running_var, wanted.running_var, tolerance);
    EXPECT_EQ(layer->num_batches_tracked.item<int64_t>(), 1);
  }
}

TEST(SynchronisedBatchNorm, HasTheFormulasOfPyTorch) {
  for (const int ranks : {2, 3}) expect_on_ranks("DISABLED_Rank.HasTheFormulasOfPyTorch", ranks);
}

// --- when it applies, and what is refused
// -------------------------------------------------------------------------

TEST(DISABLED_Rank, SynchronisesForATime) {
  const auto world = ProcessGroup::of_environment({.timeout = std::chrono::seconds(5)});
  torch::nn::BatchNorm1d layer(4);
  auto call = compile(layer, [&](const at::Tensor& x) { return layer->forward(x); });
  const auto x = input_of(world.rank()).to(at::kFloat);
  const auto alone = call(x);
  const auto sent = [&] { return world.stats().collectives; };
  const auto before = sent();
  {
    const auto synchronised = synchronise_batch_norm(*layer, world);
    const auto agreed = sent();
    EXPECT_FALSE(at::allclose(call(x), alone));  // the program of before is not used
    EXPECT_GT(sent(), agreed);
    EXPECT_THAT(message_of<InputError>([&] { (void)synchronise_batch_norm(*layer, world); }),
                HasSubstr("synchronised already"));
  }
  const auto after = sent();
  EXPECT_TRUE(at::equal(call(x), alone));
  EXPECT_EQ(sent(), after);
  EXPECT_GT(after, before);

  torch::nn::Sequential none(torch::nn::Linear(2, 2));
  EXPECT_THAT(message_of<InputError>([&] { (void)synchronise_batch_norm(*none, world); }),
              HasSubstr("a module with batch norm layers"));
  torch::nn::Sequential untracked(
      torch::nn::BatchNorm1d(torch::nn::BatchNorm1dOptions(4).track_running_stats(false)));
  EXPECT_THAT(message_of<InputError>([&] { (void)synchronise_batch_norm(*untracked, world); }),
              HasSubstr("0, which has none"));
  torch::nn::BatchNorm1d other(world.rank() == 1 ? 5 : 4);
  EXPECT_THAT(message_of<DistributedError>([&] { (void)synchronise_batch_norm(*other, world); }),
              HasSubstr("batch norm"));
  EXPECT_FALSE(
      message_of<DistributedError>([&] { (void)synchronise_batch_norm(*other, world); }).empty());
}

TEST(SynchronisedBatchNorm, IsForTheLifetimeOfTheResult) {
  expect_on_ranks("DISABLED_Rank.SynchronisesForATime", 2);
}

// As with batch norms, a program of before must not go on.
TEST(DISABLED_Rank, ReplicatesForATime) {
  const auto world = ProcessGroup::of_environment();
  torch::nn::Linear layer(3, 2);
  auto call = compile(layer, [&](const at::Tensor& x) { return layer->forward(x).sum(); });
  const auto x = at::full({1, 3}, static_cast<double>(world.rank()));
  const auto gradient = [&] {
    layer->zero_grad();
    call(x).backward();
    return layer->weight.grad().flatten()[0].item<double>();
  };
  EXPECT_EQ(gradient(), world.rank());
  {
    layer->zero_grad();
    const auto replicas = replicate(*layer, world);
    EXPECT_EQ(gradient(), 0.5);
  }
  EXPECT_EQ(gradient(), world.rank());
}

TEST(Sharding, IsSeenByCallablesThatWereCompiledBefore) {
  const auto alone = ProcessGroup::of_environment();
  torch::nn::Linear layer(3, 2);
  auto call = compile(layer, [&](const at::Tensor& x) { return layer->forward(x).sum(); });
  call(at::ones({1, 3})).backward();
  layer->zero_grad();
  const auto sharded = fully_shard(*layer, alone);
  call(at::ones({1, 3})).backward();
  EXPECT_EQ(sharded.parameters()[0].grad().sum().item<double>(), 8);
  EXPECT_EQ(call.report().eager_calls, 0);
}

TEST(Replication, IsForTheLifetimeOfTheResult) {
  expect_on_ranks("DISABLED_Rank.ReplicatesForATime", 2);
}

}  // namespace
}  // namespace antegrad::testing::synchronised_batch_norm_test
