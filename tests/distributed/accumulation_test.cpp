// Gradients of several micro-batches, reduced once: against libtorch alone, and how often ranks
// communicate.

#include <gmock/gmock.h>
#include <torch/csrc/autograd/autograd.h>

#include <cstdlib>
#include <map>
#include <optional>
#include <string>

#include "distributed/models.h"
#include "distributed/ranks.h"

namespace antegrad::testing::accumulation_test {
namespace {

using List = std::vector<at::Tensor>;
using ::testing::HasSubstr;
constexpr int kSteps = 3, kMicroBatches = 3;
constexpr double kRate = 1e-2;

enum class Way : uint8_t { call, step, compiled_backward };

struct Case {
  ShardOptions shard = {};
  Options options = {};
  bool replicated = false;
  Way way = Way::call;
};

const std::map<std::string, Case>& cases() {
  static const auto* const all = new std::map<std::string, Case>{
      {"sharded", {}},
      {"kept", {.shard = {.regather = false}}},
      {"half", {.shard = {.gather_dtype = at::kBFloat16, .reduce_dtype = at::kFloat}}},
      {"budget", {.options = Options().with_memory_share(0)}},
      {"whole_step", {.way = Way::step}},
      {"compiled_backward", {.way = Way::compiled_backward}},
      {"replicated", {.replicated = true}},
      {"replicated_whole_step", {.replicated = true, .way = Way::step}},
      {"replicated_compiled_backward", {.replicated = true, .way = Way::compiled_backward}},
  };
  return *all;
}

const Case& case_here() { return cases().at(std::getenv("ANTEGRAD_SHARDED_CASE")); }

Batch micro_batch(int rank, int step, int index) {
  return batch_of(rank, kMicroBatches * step + index);
}

// The sum of one rank's gradients over the micro-batches, in their order.
List sums_of_rank(Model& model, const Case& one, int rank, int step) {
  List sums(model->parameters().size());
  for (int index = 0; index < kMicroBatches; ++index) {
    Model used;
    copy_values(model, used);
    if (one.shard.gather_dtype) used->to(*one.shard.gather_dtype);
    const auto batch = micro_batch(rank, step, index);
    loss_of(used, batch.tokens, batch.targets).backward();
    const auto gradients = gradients_of(used);
    for (size_t i = 0; i < sums.size(); ++i) {
      sums[i] = sums[i].defined() ? sums[i] + gradients[i] : gradients[i];
    }
  }
  return sums;
}

List expected(const Case& one, int ranks) {
  at::manual_seed(0);
  Model model;
  const auto parameters = model->parameters();
  torch::optim::AdamW optimizer(parameters, torch::optim::AdamWOptions(kRate));
  for (int step = 0; step < kSteps; ++step) {
    std::vector<List> of_ranks;
    for (int rank = 0; rank < ranks; ++rank) {
      of_ranks.push_back(sums_of_rank(model, one, rank, step));
    }
    for (size_t i = 0; i < parameters.size(); ++i) {
      List all;
      for (const auto& sums : of_ranks) all.push_back(sums[i]);
      parameters[i].mutable_grad() = mean_of(all);
    }
    optimizer.step();
  }
  return parameters;
}

TEST(DISABLED_Rank, Accumulates) {
  const auto& one = case_here();
  const auto group = ProcessGroup::of_environment();
  const auto wanted = expected(one, group.size());

  at::manual_seed(group.rank());
  Model model;
  std::optional<Sharded> sharded;
  std::optional<Replicated> replicated;
  if (one.replicated) {
    replicated = replicate(*model, group, {.bucket_bytes = 9000});
  } else {
    sharded = shard_blocks(model, group, one.shard);
  }
  const auto accumulating = [&] {
    return sharded ? sharded->accumulating() : replicated->accumulating();
  };
  const auto parameters = sharded ? sharded->parameters() : model->parameters();
  torch::optim::AdamW optimizer(parameters, torch::optim::AdamWOptions(kRate));
  const auto loss = [model](const at::Tensor& tokens, const at::Tensor& targets) mutable {
    return loss_of(model, tokens, targets);
  };
  auto options = one.options;
  options.with_verify_graphs(true);
  std::optional<CompiledBackward> backward;
  if (one.way == Way::compiled_backward) backward.emplace();
  auto call = compile(model, loss, options);
  auto whole = compile_step(model, optimizer, loss, options);
  int64_t bytes_of_parameters = 0;
  for (const auto& parameter : parameters) {
    bytes_of_parameters += static_cast<int64_t>(parameter.nbytes()) * (sharded ? group.size() : 1);
  }
  const int64_t gathered = one.shard.gather_dtype ? bytes_of_parameters / 2 : bytes_of_parameters;

  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    for (int index = 0; index < kMicroBatches; ++index) {
      const auto batch = micro_batch(group.rank(), step, index);
      const bool last = index + 1 == kMicroBatches;
      std::optional<Accumulating> local;
      if (!last) local.emplace(accumulating());
      const auto before = group.stats();
      if (one.way == Way::step) {
        whole(batch.tokens, batch.targets);
      } else {
        call(batch.tokens, batch.targets).backward();
      }
      const auto sent = group.stats().bytes - before.bytes;
      const auto collectives = group.stats().collectives - before.collectives;
      // Plans for budgets and whole steps decide themselves what is gathered again.
      if (replicated) {
        EXPECT_EQ(collectives > 0, last && group.size() > 1);
      } else if (group.size() > 1 && one.options.partition != Partitioner::budget &&
                 one.way != Way::step) {
        const int64_t gathers = one.shard.regather ? 2 : 1;
        EXPECT_EQ(sent, gathers * gathered + (last ? bytes_of_parameters : 0));
      }
      if (one.way == Way::step) continue;
      for (const auto& parameter : parameters) EXPECT_EQ(parameter.grad().defined(), last);
      if (sharded && !last) {
        EXPECT_THROW(sharded->clip_grad_norm_(1.0), InputError);
      }
    }
    if (one.way != Way::step) optimizer.step();
  }
  const auto report = one.way == Way::step ? whole.report() : call.report();
  EXPECT_EQ(report.eager_calls, 0);
  EXPECT_EQ(report.compiled_calls, kSteps * kMicroBatches);
  EXPECT_GE(report.programs.size(), 2);
  if (backward) {
    EXPECT_THAT(backward->report().left_to_libtorch, ::testing::IsEmpty());
  }

  std::optional<Sharded::Unsharded> full;
  if (sharded) full.emplace(sharded->unsharded());
  expect_bits(model, wanted);
}

class Accumulation : public ::testing::TestWithParam<std::tuple<int, std::string>> {};

TEST_P(Accumulation, HasTheBitsOfLibtorchAlone) {
  const auto& [ranks, name] = GetParam();
  expect_on_ranks("DISABLED_Rank.Accumulates", ranks, {{"ANTEGRAD_SHARDED_CASE", name}});
}

INSTANTIATE_TEST_SUITE_P(Ranks, Accumulation,
                         ::testing::Combine(::testing::Values(1, 2),
                                            ::testing::ValuesIn(names_of(cases()))),
                         CaseOnRanks());

// --- one rank ------------------------------------------------------------------------------------

// A sharded layer, a compiled call of it, and its gradients.
struct OneLayer {
  torch::nn::Linear layer{3, 2};
  at::Tensor weight = layer->weight.detach().clone();
  ProcessGroup group = ProcessGroup::of_environment();
  Sharded sharded = fully_shard(*layer, group);
  at::Tensor x = at::arange(6, at::kFloat).view({2, 3}).requires_grad_();

  // Of the weight, by the layer's formula, for a tangent of ones.
  at::Tensor gradient() const { return x.detach().sum(0).expand({2, 3}); }
  at::Tensor found() const { return sharded.parameters()[0].grad().narrow(0, 0, 6).view({2, 3}); }
  bool pending() const {
    try {
      sharded.clip_grad_norm_(1e9);
      return false;
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr("were added up on each rank alone"));
      return true;
    }
  }
};

TEST(AccumulatedGradients, BelongToTheCallNotToTheTimeOfItsBackward) {
  OneLayer one;
  auto call = compile(one.layer, [&](const at::Tensor& x) { return one.layer->forward(x); });
  const auto inside = [&] {
    const auto local = one.sharded.accumulating();
    return call(one.x);
  }();
  const auto outside = call(one.x);
  inside.backward(at::ones({2, 2}));
  EXPECT_FALSE(one.sharded.parameters()[0].grad().defined());
  EXPECT_TRUE(one.pending());
  {
    const auto local = one.sharded.accumulating();
    outside.backward(at::ones({2, 2}));
  }
  EXPECT_FALSE(one.pending());
  EXPECT_TRUE(at::equal(one.found(), 2 * one.gradient()));
  const auto report = call.report();
  ASSERT_EQ(report.programs.size(), 2);
  EXPECT_EQ(report.compiled_calls, 2);
  EXPECT_THAT(
      report.recompiles,
      ::testing::ElementsAre(HasSubstr("accumulating() of a sharded or replicated module")));
}

// A tangent with strides of its own is captured again, when the scope is over.
TEST(AccumulatedGradients, StayInBackwardsOfAnotherForm) {
  OneLayer one;
  auto call = compile(one.layer, [&](const at::Tensor& x) { return one.layer->forward(x); });
  const auto y = [&] {
    const auto local = one.sharded.accumulating();
    return call(one.x);
  }();
  y.backward(at::ones({1}).expand({2, 2}));
  EXPECT_FALSE(one.sharded.parameters()[0].grad().defined());
  EXPECT_TRUE(one.pending());
  call(one.x).backward(at::ones({2, 2}));
  EXPECT_TRUE(at::equal(one.found(), 2 * one.gradient()));
}

// Who asks for other gradients neither adds to the sum nor takes it.
TEST(AccumulatedGradients, AreUntouchedByPassesThatDoNotAskForThem) {
  OneLayer one;
  auto call = compile(one.layer, [&](const at::Tensor& x) { return one.layer->forward(x); });
  const auto gradient_of_x = [&] {
    return torch::autograd::grad({call(one.x)}, {one.x}, {at::ones({2, 2})})[0];
  };
  {
    const auto local = one.sharded.accumulating();
    EXPECT_TRUE(at::equal(gradient_of_x(), one.weight.sum(0).expand({2, 3})));
    EXPECT_FALSE(one.pending());
    call(one.x).backward(at::ones({2, 2}));
  }
  EXPECT_TRUE(at::equal(gradient_of_x(), one.weight.sum(0).expand({2, 3})));
  EXPECT_TRUE(one.pending());
  call(one.x).backward(at::ones({2, 2}));
  EXPECT_FALSE(one.pending());
  EXPECT_TRUE(at::equal(one.found(), 2 * one.gradient()));
}

TEST(AccumulatedGradients, CanBeForgotten) {
  OneLayer one;
  auto call = compile(one.layer, [&](const at::Tensor& x) { return one.layer->forward(x); });
  {
    const auto local = one.sharded.accumulating();
    const auto again = one.sharded.accumulating();
    call(one.x).backward(at::ones({2, 2}));
  }
  one.sharded.forget_accumulated();
  EXPECT_FALSE(one.pending());
  call(one.x).backward(at::ones({2, 2}));
  EXPECT_TRUE(at::equal(one.found(), one.gradient()));
}

}  // namespace
}  // namespace antegrad::testing::accumulation_test
