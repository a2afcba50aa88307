// Objects that die, move or are reloaded between a call, the next call and its backward.

#include <ATen/ATen.h>
#include <ATen/native/Resize.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adamw.h>
#include <torch/serialize.h>
#include <torch/utils.h>

#include <cstring>
#include <memory>
#include <optional>
#include <sstream>

#include "support/parity.h"

namespace antegrad::testing {
namespace lifetimes_test {

using List = std::vector<at::Tensor>;

at::Tensor leaf(at::IntArrayRef sizes) { return at::randn(sizes).set_requires_grad(true); }

torch::nn::Sequential network() {
  return torch::nn::Sequential(torch::nn::Linear(5, 4), torch::nn::Tanh(), torch::nn::Linear(4, 3));
}

List parameter_gradients(const torch::nn::Module& module) {
  List list;
  for (const auto& p : module.parameters()) list.push_back(p.grad());
  return list;
}

// Loss and gradients of one step.
template <class Fn>
List outcome(Fn&& fn, torch::nn::Module& module, const at::Tensor& x) {
  module.zero_grad();
  const auto loss = fn(x);
  loss.sum().backward();
  auto all = parameter_gradients(module);
  all.push_back(loss.detach());
  return all;
}

TEST(Lifetimes, BackwardAfterTheCompiledCallableDied) {
  const auto w = leaf({3});
  const auto x = leaf({3});
  at::Tensor loss, expected = (x * w).sin().sum();
  {
    auto step = antegrad::compile([w](const at::Tensor& in) { return (in * w).sin().sum(); });
    loss = step(x);
  }
  loss.backward();
  EXPECT_TRUE(same_bits(List{x.grad(), w.grad()}, torch::autograd::grad({expected}, {x, w})));
  EXPECT_EQ(capture::live_stand_ins(), 0);
}

// A backward form that is not captured yet runs the callable, which the autograd graph keeps alive.
TEST(Lifetimes, AnUnusualBackwardAfterTheCompiledCallableDied) {
  const auto x = leaf({3});
  std::vector<at::Tensor> results;
  {
    const auto w = std::make_shared<at::Tensor>(leaf({3}));
    auto step = antegrad::compile([w](const at::Tensor& in) {
      const auto h = in * *w;
      return std::vector<at::Tensor>{h.sin(), h.cos()};
    });
    results = step(x);
  }
  results[1].sum().backward();
  EXPECT_TRUE(x.grad().defined());
}

TEST(Lifetimes, BackwardAfterTheModuleDied) {
  auto model = network();
  const auto x = leaf({2, 5});
  const auto weights = model->parameters();
  const auto expected = [&] { return torch::autograd::grad({model->forward(x).sum()}, weights); }();
  std::optional step = antegrad::compile(
      model, [model](const at::Tensor& in) mutable { return model->forward(in); });
  const auto result = (*step)(x);
  step.reset();
  model = nullptr;
  result.sum().backward();
  List found;
  for (const auto& w : weights) found.push_back(w.grad());
  EXPECT_TRUE(same_bits(found, expected));
}

TEST(Lifetimes, TheModuleLivesAsLongAsTheCompiledCallable) {
  auto model = network();
  const auto x = at::randn({2, 5});
  const auto expected = model->forward(x);
  auto step = antegrad::compile(model);
  std::weak_ptr<torch::nn::Module> watch = model.ptr();
  model = nullptr;
  EXPECT_TRUE(same_bits(step(x), expected));
  EXPECT_FALSE(watch.expired());
}

TEST(Lifetimes, AFreedModuleThatTheCallableHoldsIsLibtorchsError) {
  auto model = network();
  const auto fn = [&](const at::Tensor& x) { return model->forward(x); };
  auto step = antegrad::compile(fn);
  const auto x = at::randn({2, 5});
  step(x);
  model = nullptr;
  EXPECT_THROW(step(x), c10::Error);  // its tensors are gone, and so is the callable's model
  model = network();
  EXPECT_TRUE(same_bits(step(x), fn(x)));
  EXPECT_EQ(step.report().eager_calls, 0);
}

TEST(Lifetimes, AFreedTensorThatTheCallableHoldsIsCapturedAnew) {
  auto w = leaf({3});
  auto step = antegrad::compile([&](const at::Tensor& x) { return (x * w).sum(); });
  const auto x = at::randn({3});
  for (int n = 0; n < 4; ++n) {
    w = leaf({3});
    step(x).backward();
    EXPECT_TRUE(same_bits(w.grad(), x));
  }
  EXPECT_EQ(step.report().eager_calls, 0);
}

TEST(Lifetimes, MemoryOfDeadProgramsIsGivenBack) {
  const auto w = std::make_shared<at::Tensor>(leaf({3}));
  const std::weak_ptr<at::Tensor> watch = w;
  {
    auto step = antegrad::compile([w](const at::Tensor& x) { return (x * *w).sum(); });
    step(at::randn({3})).backward();
    step.reset();
  }
  EXPECT_EQ(watch.use_count(), 1);
}

TEST(Lifetimes, AnArgumentDiesBeforeBackward) {
  const auto w = leaf({3});
  auto step = antegrad::compile([&](const at::Tensor& x) { return (x * w).sin().sum(); });
  std::optional x = at::randn({3});
  const auto copy = x->clone();
  const auto loss = step(*x);
  x.reset();
  loss.backward();
  EXPECT_TRUE(same_bits(w.grad(), torch::autograd::grad({(copy * w).sin().sum()}, {w})[0]));
}

// ---- modules that change between calls ----------------------------------------------------------

TEST(Lifetimes, ModulesMovedToAnotherDtypeAndBack) {
  auto model = network();
  const auto fn = [&](const at::Tensor& x) {
    return model->forward(x.to(model->parameters()[0].dtype()));
  };
  auto step = antegrad::compile(model, fn);
  const auto x = at::randn({2, 5});
  for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kFloat}) {
    model->to(dtype);
    const auto expected = outcome(fn, *model, x);
    for (int n = 0; n < 2; ++n) EXPECT_TRUE(same_bits(outcome(step, *model, x), expected));
  }
  EXPECT_EQ(step.report().eager_calls, 0);
}

// As FSDP2 does with parameters between forward and backward.
TEST(Lifetimes, AStorageMayBeFreedUntilTheBackward) {
  const auto w = at::arange(6, at::kFloat).requires_grad_();
  const auto x = at::ones({6}).requires_grad_();
  auto step = compile([](const at::Tensor& w, const at::Tensor& x) { return (w * x).sin().sum(); });
  const auto eager = (w * x).sin().sum();
  const auto wanted = torch::autograd::grad({eager}, {w, x});
  const auto values = w.detach().clone();
  const auto resize = [&](size_t bytes) {
    at::native::resize_bytes_nocuda(w.storage(), c10::SymInt(static_cast<int64_t>(bytes)));
  };
  auto loss = step(w, x);
  resize(0);
  EXPECT_THROW(torch::autograd::grad({loss}, {w, x}), BackwardError);
  resize(values.nbytes());
  std::memcpy(w.mutable_data_ptr(), values.const_data_ptr(), values.nbytes());
  loss = step(w, x);
  resize(0);
  resize(values.nbytes());
  std::memcpy(w.mutable_data_ptr(), values.const_data_ptr(), values.nbytes());
  const auto found = torch::autograd::grad({loss}, {w, x});
  EXPECT_TRUE(at::equal(found[0], wanted[0]));
  EXPECT_TRUE(at::equal(found[1], wanted[1]));
}

// set_data() does not change the version. Eager uses the old or the new data, depending on whether
// a formula saved the parameter or a view of it.
TEST(Lifetimes, DataExchangedBetweenForwardAndBackwardIsRefused) {
  auto model = network();
  const auto fn = [&](const at::Tensor& x) { return model->forward(x); };
  auto step = antegrad::compile(model, fn);
  const auto x = at::ones({2, 5});
  auto result = step(x);
  model->to(at::kDouble);
  EXPECT_THROW(result.sum().backward(), BackwardError);
  model->to(at::kFloat);
  EXPECT_THROW(result.sum().backward(), BackwardError);

  const auto w = leaf({5});
  auto scale = antegrad::compile([&](const at::Tensor& in) { return (in * w).sin(); });
  const auto argument = leaf({5});
  result = scale(argument);
  w.set_data(at::zeros({5}));
  EXPECT_THROW(result.sum().backward(), BackwardError);
  EXPECT_FALSE(argument.grad().defined() || w.grad().defined());
  EXPECT_TRUE(same_bits(outcome(step, *model, x), outcome(fn, *model, x)));
}

TEST(Lifetimes, ModulesSavedAndLoadedBetweenCalls) {
  torch::manual_seed(3);
  auto model = network();
  const auto fn = [&](const at::Tensor& x) { return model->forward(x); };
  auto step = antegrad::compile(model, fn);
  torch::optim::AdamW optimizer(model->parameters());
  const auto x = at::randn({2, 5});
  const auto first = outcome(step, *model, x);
  std::stringstream file;
  torch::save(model, file);
  for (int n = 0; n < 3; ++n) {
    outcome(step, *model, x);
    optimizer.step();
  }
  EXPECT_FALSE(same_bits(outcome(step, *model, x), first));
  torch::load(model, file);  // into the existing tensors
  EXPECT_TRUE(same_bits(outcome(fn, *model, x), first));
  EXPECT_TRUE(same_bits(outcome(step, *model, x), first));
  EXPECT_EQ(step.report().eager_calls, 0);
}

TEST(Lifetimes, AModuleSavedBetweenForwardAndBackward) {
  auto model = network();
  const auto fn = [&](const at::Tensor& x) { return model->forward(x); };
  auto step = antegrad::compile(model, fn);
  const auto x = at::randn({2, 5});
  const auto expected = outcome(fn, *model, x);
  const auto save_between = [&](const at::Tensor& in) {
    const auto result = step(in);
    std::stringstream file;
    torch::save(model, file);
    auto copy = network();
    torch::load(copy, file);
    EXPECT_TRUE(same_bits(copy->parameters(), model->parameters()));
    return result;
  };
  EXPECT_TRUE(same_bits(outcome(save_between, *model, x), expected));
}

TEST(Lifetimes, AModuleLoadedBetweenForwardAndBackwardIsEagersError) {
  const auto run = [](bool compiled) -> std::string {
    torch::manual_seed(2);
    auto model = network();
    std::stringstream file;
    torch::save(model, file);
    const auto fn = [&](const at::Tensor& x) { return model->forward(x); };
    auto step = antegrad::compile(model, fn);
    const auto x = at::ones({2, 5});
    const auto result = compiled ? step(x) : fn(x);
    torch::load(model, file);
    try {
      result.sum().backward();
    } catch (const std::exception&) {
      return "refused";
    }
    return "accepted";
  };
  EXPECT_EQ(run(true), run(false));
}

TEST(Lifetimes, CopiesShareProgramsAndOutliveEachOther) {
  const auto w = leaf({3});
  const auto make = [&] {
    auto first = antegrad::compile([&](const at::Tensor& x) { return (x * w).sin(); });
    first(at::randn({3}));
    auto copy = first;
    return copy;
  };
  auto step = make();
  const auto x = at::randn({3});
  EXPECT_TRUE(same_bits(step(x), (x * w).sin()));
  EXPECT_EQ(step.report().programs.size(), 1U);
  EXPECT_EQ(step.report().compiled_calls, 2);
}

}  // namespace lifetimes_test
}  // namespace antegrad::testing
