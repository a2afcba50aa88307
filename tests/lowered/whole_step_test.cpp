// Whole steps beside loss.backward() and optimizer.step() of libtorch: the same bits.

#include <ATen/ATen.h>
#include <antegrad/antegrad.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim.h>
#include <torch/serialize.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "exact_options.h"
#include "support/bits.h"
#include "torch_compat/allocation_watch.h"

namespace antegrad::testing {
namespace whole_step_test {

// As default_step_options() plan: by the price of memory.
Options exact() { return testing::exact().with_partition(Partitioner::priced); }

using List = std::vector<at::Tensor>;
using OptimizerPtr = std::unique_ptr<torch::optim::Optimizer>;
using MakeOptimizer = std::function<OptimizerPtr(const List& parameters)>;

struct NetImpl : torch::nn::Module {
  NetImpl()
      : first(register_module("first", torch::nn::Linear(20, 40))),
        norm(register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({40})))),
        second(register_module("second", torch::nn::Linear(40, 3))),
        unused(register_parameter("unused", at::ones({4}))) {}
  at::Tensor forward(const at::Tensor& x) {
    return second(torch::dropout(torch::gelu(norm(first(x))), 0.1, is_training()));
  }
  torch::nn::Linear first;
  torch::nn::LayerNorm norm;
  torch::nn::Linear second;
  at::Tensor unused;
};
TORCH_MODULE(Net);

Net net() {
  at::manual_seed(3);
  return Net();
}

List batch(int64_t number, int64_t rows = 16) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(100 + number);
  return {at::randn({rows, 20}, generator), at::randint(3, {rows}, generator)};
}

auto loss_of(const Net& model) {
  return [model = Net(model)](const at::Tensor& x, const at::Tensor& y) mutable {
    return torch::nn::functional::cross_entropy(model(x), y);
  };
}

/// What torch::nn::utils does to gradients.
void clip(const List& parameters, const StepOptions& options) {
  using namespace torch::nn::utils;
  if (options.clip_value) clip_grad_value_(parameters, *options.clip_value);
  if (options.clip_norm) clip_grad_norm_(parameters, *options.clip_norm, options.clip_norm_type);
}

/// Losses of `steps` calls.
List train_eagerly(const Net& model, torch::optim::Optimizer& optimizer, int steps, int from = 0,
                   const StepOptions& options = {}) {
  auto loss_fn = loss_of(model);
  List losses;
  optimizer.zero_grad();
  for (int i = from; i < from + steps; ++i) {
    const auto data = batch(i);
    const auto loss = loss_fn(data[0], data[1]);
    loss.backward();
    losses.push_back(loss.detach());
    if ((i - from + 1) % options.accumulate != 0) continue;
    clip(model->parameters(), options);
    optimizer.step();
    optimizer.zero_grad();
  }
  return losses;
}

template <class Step>
List train(Step& step, int steps, int from = 0) {
  List losses;
  for (int i = from; i < from + steps; ++i) {
    const auto data = batch(i);
    losses.push_back(step(data[0], data[1]));
  }
  return losses;
}

std::string saved(const torch::optim::Optimizer& optimizer) {
  std::ostringstream stream;
  torch::serialize::OutputArchive archive;
  optimizer.save(archive);
  archive.save_to(stream);
  return stream.str();
}

void load(torch::optim::Optimizer& optimizer, const std::string& from) {
  std::istringstream stream(from);
  torch::serialize::InputArchive archive;
  archive.load_from(stream);
  optimizer.load(archive);
}

/// Tensors of the states of parameters, in order; an undefined one for a parameter without.
List states(torch::optim::Optimizer& optimizer, const List& parameters) {
  List found;
  for (const auto& parameter : parameters) {
    const auto state = optimizer.state().find(parameter.unsafeGetTensorImpl());
    if (state == optimizer.state().end()) {
      found.emplace_back();
      continue;
    }
    if (auto* sgd = dynamic_cast<torch::optim::SGDParamState*>(state->second.get())) {
      found.push_back(sgd->momentum_buffer());
    }
    const auto add = [&](auto* adam) {
      if (adam == nullptr) return;
      found.push_back(at::scalar_tensor(adam->step(), at::kLong));
      found.push_back(adam->exp_avg());
      found.push_back(adam->exp_avg_sq());
      found.push_back(adam->max_exp_avg_sq());
    };
    add(dynamic_cast<torch::optim::AdamParamState*>(state->second.get()));
    add(dynamic_cast<torch::optim::AdamWParamState*>(state->second.get()));
  }
  return found;
}

template <class Optimizer, class Options>
MakeOptimizer made_with(Options options) {
  return [options](const List& parameters) {
    return OptimizerPtr(std::make_unique<Optimizer>(parameters, options));
  };
}

std::vector<std::pair<std::string, MakeOptimizer>> optimizers() {
  using namespace torch::optim;
  return {
      {"sgd", made_with<SGD>(SGDOptions(0.1))},
      {"sgd that decays", made_with<SGD>(SGDOptions(0.1).weight_decay(0.01))},
      {"momentum", made_with<SGD>(SGDOptions(0.1).momentum(0.9).dampening(0.2))},
      {"nesterov", made_with<SGD>(SGDOptions(0.1).momentum(0.9).nesterov(true).weight_decay(0.1))},
      {"adam", made_with<Adam>(AdamOptions(0.01))},
      {"adam that decays", made_with<Adam>(AdamOptions(0.01).weight_decay(0.1).amsgrad(true))},
      {"adamw", made_with<AdamW>(AdamWOptions(0.01))},
      {"adamw, amsgrad", made_with<AdamW>(AdamWOptions(0.01).amsgrad(true).betas({0.8, 0.99}))},
      {"adamw without decay", made_with<AdamW>(AdamWOptions(0.01).weight_decay(0))},
  };
}

class WholeSteps : public ::testing::TestWithParam<Lowering> {};

TEST_P(WholeSteps, HasTheBitsOfEager) {
  for (const auto& [name, make] : optimizers()) {
    SCOPED_TRACE(name);
    const auto eager = net(), compiled = net();
    const auto eagers = make(eager->parameters()), ours = make(compiled->parameters());
    auto step = compile_step(compiled, *ours, loss_of(compiled), exact().with_lowering(GetParam()));
    at::manual_seed(5);
    const auto expected = train_eagerly(eager, *eagers, 5);
    at::manual_seed(5);
    EXPECT_TRUE(same_bits(train(step, 5), expected));
    EXPECT_TRUE(same_bits(compiled->parameters(), eager->parameters()));
    EXPECT_TRUE(
        same_bits(states(*ours, compiled->parameters()), states(*eagers, eager->parameters())));
    EXPECT_EQ(step.report().eager_calls, 0);
    for (const auto& parameter : compiled->parameters()) EXPECT_FALSE(parameter.grad().defined());
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, WholeSteps, ::testing::Values(Lowering::off, Lowering::exact),
                         [](const auto& level) {
                           return level.param == Lowering::off ? "off" : "exact";
                         });

TEST(WholeStep, HasThemWithMoreOrLessMemory) {
  const auto trained = [](const Options* options) {
    const auto model = net();
    torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(0.01));
    at::manual_seed(2);
    List found;
    if (options == nullptr) {
      found = train_eagerly(model, optimizer, 3);
    } else {
      auto step = compile_step(model, optimizer, loss_of(model), *options);
      found = train(step, 3);
      EXPECT_EQ(step.report().eager_calls, 0);
    }
    for (const auto& parameter : model->parameters()) found.push_back(parameter.detach());
    return found;
  };
  const auto expected = trained(nullptr);
  for (const auto& options :
       {exact().with_partition(Partitioner::as_written),
        exact().with_partition(Partitioner::min_cut), exact().with_memory_share(0),
        exact().with_memory_share(0.5), exact().with_memory_budget(1_MiB)}) {
    EXPECT_TRUE(same_bits(trained(&options), expected));
  }
}

TEST(WholeStep, IsPlannedByThePriceOfMemory) {
  EXPECT_EQ(default_step_options().partition, Partitioner::priced);
  set_default_options(Options().with_partition(Partitioner::min_cut));
  EXPECT_EQ(default_step_options().partition, Partitioner::min_cut);
  set_default_options(Options());
}

// Of 16 layers that are wider than the batch, eager has all gradients at the end of the backward.
TEST(WholeStep, AGradientDiesAtItsUpdate) {
  const auto peak = [](bool whole) {
    at::manual_seed(0);
    torch::nn::Sequential model;
    for (int i = 0; i < 16; ++i) {
      model->push_back(torch::nn::Linear(torch::nn::LinearOptions(256, 256).bias(false)));
      model->push_back(torch::nn::Tanh());
    }
    torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    auto loss = [model](const at::Tensor& x) mutable { return model->forward(x).square().mean(); };
    auto step = compile_step(model, optimizer, loss, exact());
    const auto x = at::randn({4, 256});
    const auto once = [&] {
      if (whole) {
        step(x);
      } else {
        loss(x).backward();
        optimizer.step();
        optimizer.zero_grad();
      }
    };
    for (int i = 0; i < 3; ++i) once();
    const torch_compat::AllocationWatch watch(c10::DeviceType::CPU);
    once();
    return watch.peak_bytes();
  };
  constexpr int64_t kLayer = 256 * 256 * 4;
  EXPECT_GE(peak(false), 16 * kLayer);
  EXPECT_LE(peak(true), 3 * kLayer);
}

TEST(WholeStep, ANewRateCompilesNothing) {
  const auto eager = net(), compiled = net();
  torch::optim::AdamW eagers(eager->parameters(), torch::optim::AdamWOptions(0.01));
  torch::optim::AdamW ours(compiled->parameters(), torch::optim::AdamWOptions(0.01));
  auto step = compile_step(compiled, ours, loss_of(compiled), exact());
  for (int i = 0; i < 4; ++i) {
    for (auto* optimizer : {&eagers, &ours}) {
      auto& options =
          static_cast<torch::optim::AdamWOptions&>(optimizer->param_groups()[0].options());
      options.lr(0.01 / (i + 1));
    }
    at::manual_seed(i);
    const auto expected = train_eagerly(eager, eagers, 1, i);
    at::manual_seed(i);
    EXPECT_TRUE(same_bits(train(step, 1, i), expected));
  }
  EXPECT_TRUE(same_bits(compiled->parameters(), eager->parameters()));
  EXPECT_EQ(step.report().programs.size(), 1U) << step.report();
}

TEST(WholeStep, GroupsHaveTheirOwnOptions) {
  using namespace torch::optim;
  const auto groups = [](const Net& model) {
    std::vector<OptimizerParamGroup> made;
    made.emplace_back(model->first->parameters(), std::make_unique<AdamWOptions>(0.02));
    made.emplace_back(model->second->parameters(),
                      std::make_unique<AdamWOptions>(AdamWOptions(0.005).weight_decay(0)));
    return made;
  };
  const auto eager = net(), compiled = net();
  AdamW eagers(groups(eager), AdamWOptions(1)), ours(groups(compiled), AdamWOptions(1));
  auto step = compile_step(compiled, ours, loss_of(compiled), exact());
  at::manual_seed(1);
  const auto expected = train_eagerly(eager, eagers, 3);
  at::manual_seed(1);
  EXPECT_TRUE(same_bits(train(step, 3), expected));
  EXPECT_TRUE(same_bits(compiled->parameters(), eager->parameters()));
}

TEST(WholeStep, GoesOnFromASavedOptimizer) {
  const auto eager = net(), compiled = net();
  torch::optim::Adam eagers(eager->parameters(), torch::optim::AdamOptions(0.01));
  torch::optim::Adam ours(compiled->parameters(), torch::optim::AdamOptions(0.01));
  at::manual_seed(1);
  auto expected = train_eagerly(eager, eagers, 4);
  at::manual_seed(1);
  auto found = train_eagerly(compiled, ours, 1);  // eager first
  auto step = compile_step(compiled, ours, loss_of(compiled), exact());
  for (const auto& loss : train(step, 1, 1)) found.push_back(loss);
  load(ours, saved(ours));
  for (const auto& loss : train(step, 1, 2)) found.push_back(loss);
  for (const auto& loss : train_eagerly(compiled, ours, 1, 3)) found.push_back(loss);
  EXPECT_TRUE(same_bits(found, expected));
  EXPECT_TRUE(same_bits(compiled->parameters(), eager->parameters()));
}

TEST_P(WholeSteps, ClipAndAddGradientsUpAsEager) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const std::vector<StepOptions> all = {
      {.clip_value = 0.01},
      {.clip_value = 0},
      {.clip_norm = 0.05},
      {.clip_norm = 1e9},
      {.clip_norm = 0.1, .clip_norm_type = 1},
      {.clip_norm = 0.1, .clip_norm_type = 3.5},
      {.clip_norm = 0.01, .clip_norm_type = kInfinity},
      {.clip_norm = 0.01, .clip_norm_type = 0},
      {.clip_value = 0.02, .clip_norm = 0.03},
      {.accumulate = 2},
      {.clip_norm = 0.05, .accumulate = 3},
  };
  for (size_t i = 0; i < all.size(); ++i) {
    SCOPED_TRACE(i);
    const auto eager = net(), compiled = net();
    torch::optim::AdamW eagers(eager->parameters(), torch::optim::AdamWOptions(0.01));
    torch::optim::AdamW ours(compiled->parameters(), torch::optim::AdamWOptions(0.01));
    auto step =
        compile_step(compiled, ours, loss_of(compiled), exact().with_lowering(GetParam()), all[i]);
    at::manual_seed(5);
    const auto expected = train_eagerly(eager, eagers, 7, 0, all[i]);
    at::manual_seed(5);
    EXPECT_TRUE(same_bits(train(step, 7), expected));
    EXPECT_TRUE(same_bits(compiled->parameters(), eager->parameters()));
    EXPECT_TRUE(
        same_bits(states(ours, compiled->parameters()), states(eagers, eager->parameters())));
    EXPECT_EQ(step.report().eager_calls, 0);
  }
}

// A parameter may have a gradient in some of the calls of an update only; the last call need not be
// one of them. A callable that is refused runs eagerly, and adds up all the same.
TEST(WholeStep, AddsUpWhatGradientsThereAre) {
  const auto loss_fn = [](const Net& model, bool refused) {
    return [model = Net(model), refused](const at::Tensor& x) mutable {
      if (refused) static_cast<void>(x.to_sparse());
      const auto loss = model->first(x).square().mean();
      return x.size(0) % 2 == 0 ? loss : loss + model->unused.square().sum();
    };
  };
  for (const bool refused : {false, true}) {
    SCOPED_TRACE(refused);
    const auto eager = net(), compiled = net();
    torch::optim::AdamW eagers(eager->parameters(), torch::optim::AdamWOptions(0.01));
    torch::optim::AdamW ours(compiled->parameters(), torch::optim::AdamWOptions(0.01));
    auto step = compile_step(compiled, ours, loss_fn(compiled, refused),
                             exact().with_on_refusal(OnRefusal::eager), {.accumulate = 2});
    auto of_eager = loss_fn(eager, false);
    int64_t calls = 0;
    for (const int64_t rows : {4, 4, 5, 4, 4, 5, 5, 5}) {
      const auto x = at::ones({rows, 20});
      of_eager(x).backward();
      step(x);
      if (++calls % 2 != 0) continue;
      eagers.step();
      eagers.zero_grad();
      EXPECT_TRUE(same_bits(compiled->parameters(), eager->parameters())) << calls;
    }
    EXPECT_TRUE(
        same_bits(states(ours, compiled->parameters()), states(eagers, eager->parameters())));
    EXPECT_EQ(step.report().eager_calls, refused ? calls : 0);
  }
}

TEST(WholeStep, AnUpdateIsOneKernel) {
  const auto model = net();
  torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(0.01));
  auto step = compile_step(model, optimizer, loss_of(model), exact().with_keep_slow_kernels(true));
  train(step, 1);
  const auto report = step.report();
  int64_t updates = 0;
  for (const auto& kernel : report.programs.at(0).generated_kernels) {
    const auto has = [&](const char* op) {
      return std::ranges::find(kernel.operators, op) != kernel.operators.end();
    };
    updates +=
        has("aten::addcmul.default") && has("aten::sqrt.default") && has("aten::addcdiv.default");
  }
  // Weights and biases; some are in one kernel.
  EXPECT_GE(updates, 4) << ::testing::PrintToString(report.programs[0].not_generated);
}

TEST(WholeStep, ForgetsGradientsOnRequest) {
  const auto eager = net(), compiled = net();
  torch::optim::SGD eagers(eager->parameters(), torch::optim::SGDOptions(0.1));
  torch::optim::SGD ours(compiled->parameters(), torch::optim::SGDOptions(0.1));
  auto step = compile_step(compiled, ours, loss_of(compiled), exact(), {.accumulate = 2});
  train(step, 1, 9);
  step.zero_grad();
  at::manual_seed(1);
  const auto expected = train_eagerly(eager, eagers, 4, 0, {.accumulate = 2});
  at::manual_seed(1);
  EXPECT_TRUE(same_bits(train(step, 4), expected));
  EXPECT_TRUE(same_bits(compiled->parameters(), eager->parameters()));
}

TEST(WholeStep, LimitsOfGradientsAreNumbers) {
  const auto model = net();
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const auto& options : std::vector<StepOptions>{{.clip_value = -1},
                                                      {.clip_norm = nan},
                                                      {.clip_norm = 1, .clip_norm_type = -1},
                                                      {.accumulate = 0}}) {
    EXPECT_THROW(compile_step(model, optimizer, loss_of(model), exact(), options), OptionError);
  }
}

TEST(WholeStep, WritesParametersInPlace) {
  const auto model = net();
  torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(0.01));
  auto step = compile_step(model, optimizer, loss_of(model), exact());
  std::vector<const void*> before;
  for (const auto& parameter : model->parameters()) before.push_back(parameter.data_ptr());
  const auto data = batch(0);
  step(data[0], data[1]);
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(model->parameters()[i].data_ptr(), before[i]);
  }
  EXPECT_THROW(step(data[0].slice(1, 0, 19), data[1]), c10::Error);  // eager's error
}

// A derivative that asks for data, which no program can know.
struct AsksInBackward : torch::autograd::Function<AsksInBackward> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) {
    return x * 2;
  }
  static List backward(torch::autograd::AutogradContext*, List gradients) {
    return {gradients[0] * gradients[0].sum().item<double>()};
  }
};

TEST(WholeStep, RefusesABackwardThatCannotBeCaptured) {
  const auto asks = [](const Net& model) {
    return [model = Net(model)](const at::Tensor& x) mutable {
      return AsksInBackward::apply(model(x)).square().mean();
    };
  };
  auto model = net(), eager = net();
  torch::optim::SGD ours(model->parameters(), 0.1), theirs(eager->parameters(), 0.1);
  auto refusing = compile_step(model, ours, asks(model), exact());
  EXPECT_THROW(refusing(batch(0)[0]), DataDependentError);
  EXPECT_TRUE(at::equal(model->first->weight, eager->first->weight));
  auto step = compile_step(model, ours, asks(model), exact().with_on_refusal(OnRefusal::eager));
  at::manual_seed(1);
  step(batch(0)[0]);
  at::manual_seed(1);
  asks(eager)(batch(0)[0]).backward();
  theirs.step();
  EXPECT_TRUE(at::equal(model->first->weight, eager->first->weight));
  EXPECT_EQ(step.report().eager_calls, 1);
}

TEST(WholeStep, RefusesWhatItCannotCompile) {
  const auto model = net();
  torch::optim::RMSprop other(model->parameters(), torch::optim::RMSpropOptions(0.01));
  EXPECT_THROW(compile_step(model, other, loss_of(model)), OptionError);
  torch::optim::SGD usual(model->parameters(), torch::optim::SGDOptions(0.1));
  EXPECT_THROW(compile_step(model, usual, loss_of(model), Options().with_check_against_eager(1)),
               OptionError);
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1));
  const auto before = model->first->weight.detach().clone();
  auto step = compile_step(model, optimizer, [model = Net(model)](const at::Tensor& x) mutable {
    return model->forward(x);
  });
  EXPECT_THROW(step(batch(0)[0]), InputError);
  auto none = compile_step(model, optimizer, [&](const at::Tensor& x) { return x.sum(); });
  EXPECT_THROW(none(batch(0)[0]), InputError);
  EXPECT_TRUE(same_bits({model->first->weight}, {before}));
}

}  // namespace whole_step_test
}  // namespace antegrad::testing
