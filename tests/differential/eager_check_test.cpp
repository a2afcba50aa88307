// Options::check_against_eager: detects differences from eager, and changes nothing else.

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/autocast_mode.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/utils.h>

#include <atomic>

#include "capture/capture.h"
#include "support/parity.h"

namespace antegrad::testing {
namespace eager_check_test {

// A deliberate bug: an operator that returns another result at each call.
std::atomic<int> drifting_calls = 0;
at::Tensor drifting(const at::Tensor& x) { return x + static_cast<double>(++drifting_calls); }
at::Tensor drifting_meta(const at::Tensor& x) { return at::empty_like(x); }
TORCH_LIBRARY(antegrad_check, m) { m.def("drifting(Tensor x) -> Tensor"); }
TORCH_LIBRARY_IMPL(antegrad_check, CPU, m) { m.impl("drifting", &drifting); }
TORCH_LIBRARY_IMPL(antegrad_check, Meta, m) { m.impl("drifting", &drifting_meta); }

at::Tensor call_drifting(const at::Tensor& x) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("antegrad_check::drifting", "")
                             .typed<at::Tensor(const at::Tensor&)>();
  return op.call(x);
}
// Its use in a backward only.
struct DriftingBackward : torch::autograd::Function<DriftingBackward> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) {
    return x.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 const torch::autograd::variable_list& g) {
    return {call_drifting(g[0])};
  }
};

Options checked(int64_t calls = 1) { return Options().with_check_against_eager(calls); }

template <class Call>
void expect_mismatch(Call call, const std::vector<std::string>& words) {
  try {
    call();
    ADD_FAILURE() << "no error";
  } catch (const MismatchError& error) {
    for (const auto& word : words) {
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos)
          << word << " is not in: " << error.what();
    }
  }
}

TEST(EagerCheck, ADifferentResultIsNamedWithCountAndSize) {
  auto step = antegrad::compile(
      [](const at::Tensor& x) {
        return std::pair{x.sin(), call_drifting(x)};
      },
      checked());
  const auto x = at::randn({3, 4});
  expect_mismatch([&] { step(x); },
                  {"result 1", "12 of 12 elements differ, by up to 1", "deterministic"});
  EXPECT_EQ(step.report().checked_calls, 1);
  EXPECT_EQ(step.report().compiled_calls, 0);
  EXPECT_NO_THROW(step(x));  // only the first call is checked
  EXPECT_EQ(step.report().checked_calls, 1);
}

TEST(EagerCheck, ADifferentGradientIsNamedByParameter) {
  torch::nn::Sequential model(torch::nn::Linear(3, 3));
  auto step = antegrad::compile(
      model, [&](const at::Tensor& x) { return DriftingBackward::apply(model->forward(x)); },
      checked());
  expect_mismatch([&] { step(at::randn({2, 3})); }, {"gradient of 0.weight"});
  auto of_argument = antegrad::compile(
      [](const at::Tensor&, const at::Tensor& x) { return DriftingBackward::apply(x); }, checked());
  expect_mismatch(
      [&] {
        of_argument(at::randn({2}), at::randn({2, 3}).set_requires_grad(true));
      },
      {"gradient of argument 1", "6 of 6"});
  for (const auto& p : model->parameters()) EXPECT_FALSE(p.grad().defined());
}

TEST(EagerCheck, ADifferentBufferArgumentAndGenerator) {
  torch::nn::BatchNorm1d norm(3);
  auto step = antegrad::compile(
      norm,
      [&](const at::Tensor& x) {
        const at::NoGradGuard no_grad;
        norm->running_mean.copy_(call_drifting(norm->running_mean));
        return x.sin();
      },
      checked());
  const auto mean = norm->running_mean.clone();
  const auto version = norm->running_mean._version();
  expect_mismatch([&] { step(at::randn({2, 3})); }, {"running_mean after the call"});
  EXPECT_TRUE(same_bits(mean, norm->running_mean));
  EXPECT_EQ(version, norm->running_mean._version());

  auto writes =
      antegrad::compile([](const at::Tensor& x) { x.copy_(call_drifting(x)); }, checked());
  const auto x = at::zeros({4});
  expect_mismatch([&] { writes(x); }, {"argument 0 after the call", "4 of 4"});
  EXPECT_TRUE(same_bits(x, at::zeros({4})));

  const auto state = generator_state();
  auto draws = antegrad::compile(
      [](const at::Tensor& in) {
        if (!capture::capturing()) {
          auto generator = at::globalContext().defaultGenerator(at::kCPU);
          at::check_generator<at::CPUGeneratorImpl>(generator)->random();
        }
        return in.sin();
      },
      checked());
  expect_mismatch([&] { draws(at::randn({2}, at::detail::createCPUGenerator(1))); },
                  {"generator cpu"});
  EXPECT_TRUE(same_bits(state, generator_state()));
}

TEST(EagerCheck, ADifferentHostValueStrideOrRequiresGrad) {
  const auto x = at::randn({3, 4});
  auto number = antegrad::compile(
      [](const at::Tensor& in) {
        return std::pair{in.sin(), capture::capturing() ? 1 : 2};
      },
      checked());
  expect_mismatch([&] { number(x); }, {"host value 0 of the result was 2, is 1"});
  auto strided = antegrad::compile(
      [](const at::Tensor& in) {
        return capture::capturing() ? in.sin() : in.t().contiguous().t().sin();
      },
      checked());
  expect_mismatch([&] { strided(x); }, {"result 0", "strides [4, 1] instead of [1, 3]"});
  const auto w = at::randn({4}).set_requires_grad(true);
  auto cut = antegrad::compile(
      [&](const at::Tensor& in) { return capture::capturing() ? (in * w).detach() : in * w; },
      checked());
  expect_mismatch([&] { cut(x); }, {"result 0", "requires_grad false instead of true"});
}

// The state that a check may affect, with version counters.
struct Trace {
  explicit Trace(const torch::nn::Module& module) {
    for (const auto& p : module.parameters()) tensors.push_back(p);
    for (const auto& b : module.buffers()) tensors.push_back(b);
    for (auto& t : tensors) {
      versions.push_back(t._version());
      grads.push_back(t.grad().defined() ? t.grad().clone() : at::Tensor());
      t = t.detach().clone();
    }
    generator = generator_state();
  }
  void expect_equal(const Trace& other) const {
    EXPECT_TRUE(same_bits(tensors, other.tensors));
    EXPECT_TRUE(same_bits(grads, other.grads));
    EXPECT_EQ(versions, other.versions);
    EXPECT_TRUE(same_bits(generator, other.generator));
  }
  std::vector<at::Tensor> tensors, grads;
  std::vector<int64_t> versions;
  at::Tensor generator;
};

TEST(EagerCheck, CheckedTrainingIsEqualToUncheckedTraining) {
  const auto train = [](int64_t calls) {
    torch::manual_seed(2);
    torch::nn::Sequential model(torch::nn::Linear(4, 8), torch::nn::BatchNorm1d(8),
                                torch::nn::Dropout(0.5), torch::nn::Linear(8, 1));
    auto step = antegrad::compile(
        model, [&](const at::Tensor& x) { return model->forward(x).pow(2).mean(); },
        checked(calls));
    for (int i = 0; i < 5; ++i) {
      step(at::randn({6, 4})).backward();
      const at::NoGradGuard no_grad;
      for (auto& p : model->parameters()) p.sub_(p.grad(), 0.01);
    }
    EXPECT_EQ(step.report().checked_calls, calls);
    EXPECT_EQ(step.report().compiled_calls, 5);
    return Trace(*model);
  };
  train(0).expect_equal(train(3));
}

TEST(EagerCheck, AMismatchChangesNothing) {
  torch::nn::Sequential model(torch::nn::Linear(4, 4), torch::nn::BatchNorm1d(4),
                              torch::nn::Dropout(0.5));
  auto step = antegrad::compile(
      model, [&](const at::Tensor& x) { return DriftingBackward::apply(model->forward(x)).sum(); },
      checked(2));
  const auto x = at::randn({3, 4}).set_requires_grad(true);
  model->forward(x).sum().backward();
  const Trace before(*model);
  const auto grad = x.grad().clone();
  const auto version = x._version();
  EXPECT_THROW(step(x), MismatchError);
  before.expect_equal(Trace(*model));
  EXPECT_TRUE(same_bits(grad, x.grad()));
  EXPECT_EQ(version, x._version());
  EXPECT_EQ(capture::live_stand_ins(), 0);
}

TEST(EagerCheck, WhatTheCallableThrowsEagerlyPassesAndChangesNothing) {
  torch::nn::Sequential model(torch::nn::Linear(4, 4), torch::nn::BatchNorm1d(4),
                              torch::nn::Dropout(0.5));
  auto step = antegrad::compile(
      model,
      [&](const at::Tensor& x) {
        auto y = model->forward(x);
        if (!capture::capturing()) throw std::runtime_error("mine");
        return y;
      },
      checked());
  const auto x = at::randn({3, 4});
  const Trace before(*model);
  EXPECT_THROW(step(x), std::runtime_error);
  before.expect_equal(Trace(*model));
  EXPECT_NO_THROW(step(x));
}

TEST(EagerCheck, ArgumentsOfEachKindPass) {
  const auto options = checked().with_verify_graphs(true);
  const auto leaf = at::randn({3, 4}).set_requires_grad(true);
  const auto inner = leaf.exp();  // not a leaf
  const auto base = at::randn({12});
  const at::Tensor undefined;
  auto step = antegrad::compile(
      [](const at::Tensor& a, const at::Tensor& b, const at::Tensor& row, const at::Tensor& twice,
         const at::Tensor& ints, const at::Tensor& none, double scale) {
        EXPECT_FALSE(none.defined());
        return std::tuple{(a * b).sum() * scale, row * twice + 1, ints + 1, b.t().exp()};
      },
      options);
  const auto ints = at::arange(3);
  step(leaf, inner, base.slice(0, 0, 4), base.slice(0, 0, 4), ints, undefined, 0.5);
  step(leaf, leaf, base.slice(0, 4, 8), base.slice(0, 2, 6), ints, undefined, 0.5);
  EXPECT_EQ(step.report().eager_calls, 0);
  EXPECT_FALSE(leaf.grad().defined());
  inner.sum().backward();  // its history is complete
  EXPECT_TRUE(leaf.grad().defined());
}

TEST(EagerCheck, ArgumentsThatAreWrittenKeepTheirValuesUntilTheCall) {
  auto step = antegrad::compile(
      [](const at::Tensor& x, const at::Tensor& y) {
        x.add_(y);
        return x * 2;
      },
      checked());
  const auto x = at::zeros({4}), y = at::ones({4});
  const auto version = x._version();
  EXPECT_TRUE(same_bits(step(x, y), at::full({4}, 2.0F)));
  EXPECT_TRUE(same_bits(x, at::ones({4})));  // written once
  EXPECT_EQ(x._version(), version + 1);
}

TEST(EagerCheck, TheSameArgumentTwice) {
  auto step = antegrad::compile(
      [](const at::Tensor& a, const at::Tensor& b) { return a * b.exp(); }, checked(2));
  auto x = at::randn({3}).set_requires_grad(true), eager = x.detach().clone();
  eager.set_requires_grad(true);
  step(x, x).sum().backward();
  (eager * eager.exp()).sum().backward();
  EXPECT_TRUE(same_bits(x.grad(), eager.grad()));
  EXPECT_EQ(step.report().checked_calls, 1);
}

TEST(EagerCheck, AnExpandedResultIsDifferentiated) {
  auto step = antegrad::compile(
      [](const at::Tensor& x) {
        return x.sin().sum(1, true).expand({2, 3});
      },
      checked());
  const auto result = step(at::randn({2, 4}).set_requires_grad(true));
  EXPECT_EQ(result.strides(), at::IntArrayRef({1, 0}));
  EXPECT_EQ(step.report().checked_calls, 1);
}

TEST(EagerCheck, ATransposedArgumentIsTransposedOnce) {
  const auto held = at::randn({2, 3});
  const auto expected = held.t().sin();
  auto step = antegrad::compile(
      [](const at::Tensor& turned, const at::Tensor& x) {
        turned.t_();
        return turned.sin() + x;
      },
      checked().with_audit(Audit::off));
  EXPECT_TRUE(same_bits(step(held, at::zeros({3, 2})), expected));
  EXPECT_EQ(held.sizes(), at::IntArrayRef({3, 2}));
  EXPECT_EQ(held.strides(), at::IntArrayRef({1, 3}));
  EXPECT_EQ(step.report().checked_calls, 1);
}

TEST(EagerCheck, ClosureTensorsWithAHistoryAndViewsOfParameters) {
  const auto w = at::randn({3, 4}).set_requires_grad(true);
  const auto held = w.exp();  // its backward must stay possible
  const auto row = w.select(0, 1);
  auto step = antegrad::compile(
      [&](const at::Tensor& x, const at::Tensor& part) { return (x * held + part).sum() * w; },
      checked(2));
  const auto x = at::randn({3, 4});
  step(x, row).sum().backward();  // through held to w
  EXPECT_TRUE(w.grad().defined());
  EXPECT_EQ(step.report().checked_calls, 1);
}

TEST(EagerCheck, AParameterThatIsAnArgumentToo) {
  torch::nn::Linear linear(3, 3);
  auto step = antegrad::compile(
      linear,
      [&](const at::Tensor& x, const at::Tensor& w) {
        return linear->forward(x).sum() + w.pow(2).sum();
      },
      checked());
  step(at::randn({2, 3}), linear->weight).backward();
  EXPECT_EQ(step.report().eager_calls, 0);
}

TEST(EagerCheck, UnderEachMode) {
  torch::nn::Sequential model(torch::nn::Linear(4, 4), torch::nn::Dropout(0.5));
  auto step = antegrad::compile(
      model, [&](const at::Tensor& x) { return model->forward(x).sin(); }, checked(3));
  const auto x = at::randn({2, 4});
  {
    const at::NoGradGuard no_grad;
    step(x);
  }
  {
    const c10::InferenceMode inference;
    step(x);
  }
  at::autocast::set_autocast_enabled(at::kCPU, true);
  EXPECT_EQ(step(x).scalar_type(), at::kBFloat16);
  at::autocast::set_autocast_enabled(at::kCPU, false);
  at::autocast::clear_cache();
  EXPECT_EQ(step.report().checked_calls, 3);
}

TEST(EagerCheck, ANegativeCountIsAnOptionError) {
  EXPECT_THROW(antegrad::compile([](const at::Tensor& x) { return x; }, checked(-1)), OptionError);
}

}  // namespace eager_check_test
}  // namespace antegrad::testing
