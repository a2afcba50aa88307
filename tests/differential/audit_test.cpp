// Host state that a callable reads besides its arguments: found by the audit, or declared with
// guard().

#include <ATen/ATen.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/utils.h>

#include <atomic>
#include <cmath>
#include <limits>
#include <thread>

#include "support/parity.h"

namespace antegrad::testing {
namespace audit_test {

Options every() { return Options().with_audit(Audit::every); }

// The call throws HostStateError with all these words.
template <class Call>
void expect_host_state(Call call, const std::vector<std::string>& words) {
  try {
    call();
    ADD_FAILURE() << "no error";
  } catch (const HostStateError& error) {
    for (const auto& word : words) {
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos)
          << word << " is not in: " << error.what();
    }
  }
}

TEST(Audit, AHostFlagIsFoundWithBothNodes) {
  bool flag = false;
  auto step = antegrad::compile(
      [&](const at::Tensor& x) {
        const auto y = x * 2;
        return flag ? y.sin() : y.cos();
      },
      Options().with_name("flagged"));
  const auto x = at::randn({3});
  step(x);
  flag = true;
  expect_host_state([&] { step(x); }, {"'flagged'", "call 2", "node 1 was", "aten::cos.default",
                                       "aten::sin.default", "ag::dynamic", ".guard(fn)"});
  EXPECT_TRUE(same_bits(step(x), (x * 2).sin()));  // the wrong program is dropped
  EXPECT_EQ(step.report().programs.size(), 1U);
}

TEST(Audit, TheFirstNodeMayBeTheOneThatDiffers) {
  bool flag = false;
  auto step = antegrad::compile([&](const at::Tensor& x) { return flag ? x.sin() : x.cos(); });
  const auto x = at::randn({3});
  step(x);
  flag = true;
  expect_host_state([&] { step(x); }, {"node 0 was", "aten::cos.default", "aten::sin.default"});
}

TEST(Audit, ACounterInTheLambdaIsFound) {
  double n = 0;
  auto step = antegrad::compile([&](const at::Tensor& x) { return x * (n += 1); });
  const auto x = at::randn({3});
  step(x);
  expect_host_state([&] { step(x); }, {"scalar(1.0)", "scalar(2.0)"});
}

TEST(Audit, OffSeesNothingAndPow2LooksAtCalls2And4And8) {
  const auto x = at::randn({3});
  const auto found_at = [&](Audit audit) {
    double factor = 1;
    auto step = antegrad::compile([&](const at::Tensor& in) { return in * factor; },
                                  Options().with_audit(audit));
    step(x), step(x);
    factor = 2;
    for (int call = 3; call <= 9; ++call) {
      try {
        step(x);
      } catch (const HostStateError&) {
        return call;
      }
    }
    return 0;
  };
  EXPECT_EQ(found_at(Audit::off), 0);
  EXPECT_EQ(found_at(Audit::pow2), 4);
  EXPECT_EQ(found_at(Audit::every), 3);
}

TEST(Audit, CallsAreCountedForEachProgram) {
  int runs = 0;
  auto step = antegrad::compile([&](const at::Tensor& x) {
    ++runs;
    return x.sin();
  });
  const auto a = at::randn({3});
  const auto b = at::randn({4});
  step(a), step(b);
  EXPECT_EQ(runs, 2);
  step(a), step(b);  // the second of each
  EXPECT_EQ(runs, 4);
  step(a), step(b);
  EXPECT_EQ(runs, 4);
  step(a), step(b);  // the fourth of each
  EXPECT_EQ(runs, 6);
  EXPECT_EQ(step.report().audits, 4);
  EXPECT_EQ(step.report().compiled_calls, 8);
}

TEST(Audit, EveryLooksAlsoAtTheFirstCallAfterWarmup) {
  auto step = antegrad::compile([](const at::Tensor& x) { return x.sin(); }, every());
  const auto x = at::randn({3});
  step.warmup(x);
  EXPECT_EQ(step.report().audits, 0);
  step(x);
  EXPECT_EQ(step.report().audits, 1);
}

TEST(Audit, OneMoreAndOneFewerOperatorAreFound) {
  int extra = 1;
  auto step = antegrad::compile(
      [&](at::Tensor x) {
        for (int i = 0; i < extra; ++i) x = x.sin();
        return x;
      },
      every());
  const auto x = at::randn({3});
  step(x);
  extra = 2;
  expect_host_state([&] { step(x); }, {"node 1 is new", "aten::sin"});
  step(x);
  extra = 1;
  expect_host_state([&] { step(x); }, {"node 1 was", "is missing"});
}

TEST(Audit, AnotherClosureTensorOfTheSameShapeIsFound) {
  const auto a = at::randn({3}), b = at::randn({3});
  bool second = false;
  auto step = antegrad::compile([&](const at::Tensor& x) { return x * (second ? b : a); }, every());
  const auto x = at::randn({3});
  step(x);
  second = true;
  expect_host_state([&] { step(x); }, {"a tensor that the callable holds", "another tensor"});
}

TEST(Audit, AnotherParameterOfTheSameShapeIsFoundByName) {
  torch::nn::Sequential model(torch::nn::Linear(3, 3), torch::nn::Linear(3, 3));
  int64_t layer = 0;
  auto step = antegrad::compile(
      model, [&](const at::Tensor& x) { return model[layer]->as<torch::nn::Linear>()->forward(x); },
      every());
  const auto x = at::randn({2, 3});
  step(x);
  layer = 1;
  expect_host_state([&] { step(x); }, {"input 1"});
}

TEST(Audit, AnotherConstantIsFoundWithBothValues) {
  double value = 1.5;
  auto step = antegrad::compile(
      [&](const at::Tensor& x) {
        auto y = x.clone();
        y.index_put_({at::zeros({1}, at::kLong)}, at::scalar_tensor(value));
        return y;
      },
      every());
  const auto x = at::randn({3});
  EXPECT_TRUE(step(x)[0].item<double>() == 1.5);
  value = 2.5;
  expect_host_state([&] { step(x); }, {"1.5", "2.5"});
}

TEST(Audit, AnotherHostValueOfTheResultIsFound) {
  int64_t n = 0;
  auto step = antegrad::compile(
      [&](const at::Tensor& x) {
        return std::pair{x.sin(), ++n};
      },
      every());
  const auto x = at::randn({3});
  EXPECT_EQ(step(x).second, 1);
  expect_host_state([&] { step(x); }, {"host value 0 of the result was 1, is 2"});
}

TEST(Audit, AnotherRequiresGradOrResultIsFound) {
  const auto w = at::randn({3}).set_requires_grad(true);
  bool detached = false;
  auto step = antegrad::compile(
      [&](const at::Tensor& x) {
        const auto y = x * w;
        return detached ? y.detach() : y;
      },
      every());
  const auto x = at::randn({3});
  EXPECT_TRUE(step(x).requires_grad());
  detached = true;
  expect_host_state([&] { step(x); }, {"found"});
}

TEST(Audit, ACallableThatIsRefusedNowIsAHostStateErrorWithItsText) {
  bool ask = false;
  auto step = antegrad::compile(
      [&](const at::Tensor& x) { return ask && x.sum().item<float>() > 0 ? x.cos() : x.sin(); },
      every().with_on_refusal(OnRefusal::eager));
  const auto x = at::randn({3});
  step(x);
  ask = true;
  expect_host_state([&] { step(x); }, {"cannot be captured any more", "_local_scalar_dense"});
  EXPECT_EQ(step.report().eager_calls, 0);
}

TEST(Audit, ItIsThrownUnderTheEagerOptionToo) {
  double factor = 1;
  auto step = antegrad::compile([&](const at::Tensor& x) { return x * factor; },
                                every().with_on_refusal(OnRefusal::eager));
  const auto x = at::randn({3});
  step(x);
  factor = 2;
  EXPECT_THROW(step(x), HostStateError);
}

// The state of a model that a call may change, with version counters.
struct Trace {
  explicit Trace(const torch::nn::Module& module) {
    for (const auto& p : module.parameters()) add(p);
    for (const auto& b : module.buffers()) add(b);
    generator = generator_state();
  }
  void add(const at::Tensor& t) {
    tensors.push_back(t.detach().clone());
    grads.push_back(t.grad().defined() ? t.grad().clone() : at::Tensor());
    addresses.push_back(t.unsafeGetTensorImpl());
    addresses.push_back(t.const_data_ptr());
    addresses.push_back(t.grad().defined() ? t.grad().unsafeGetTensorImpl() : nullptr);
    versions.push_back(t._version());
    requires_grad.push_back(t.requires_grad());
  }
  void expect_equal(const Trace& other) const {
    EXPECT_TRUE(same_bits(tensors, other.tensors));
    EXPECT_TRUE(same_bits(grads, other.grads));
    EXPECT_EQ(addresses, other.addresses);
    EXPECT_EQ(versions, other.versions);
    EXPECT_EQ(requires_grad, other.requires_grad);
    EXPECT_TRUE(same_bits(generator, other.generator));
  }
  std::vector<at::Tensor> tensors, grads;
  std::vector<const void*> addresses;
  std::vector<int64_t> versions;
  std::vector<bool> requires_grad;
  at::Tensor generator;
};

TEST(Audit, ItLeavesNoTrace) {
  torch::manual_seed(1);
  torch::nn::Sequential model(torch::nn::Linear(4, 8), torch::nn::BatchNorm1d(8),
                              torch::nn::Dropout(0.5));
  bool extra = false;
  auto step = antegrad::compile(
      model,
      [&](const at::Tensor& x) {
        auto y = model->forward(x).sum();
        return extra ? y.sin() : y;
      },
      every());
  const auto x = at::randn({6, 4}).set_requires_grad(true);
  step(x).backward();
  const Trace before(*model);
  const auto grad = x.grad().clone();
  const auto version = x._version();
  extra = true;
  EXPECT_THROW(step(x), HostStateError);  // an audit, and nothing after it
  before.expect_equal(Trace(*model));
  EXPECT_TRUE(same_bits(x.grad(), grad));
  EXPECT_EQ(x._version(), version);
  EXPECT_EQ(capture::live_stand_ins(), 0);
}

TEST(Audit, AuditedTrainingIsEqualToUnauditedTraining) {
  const auto train = [](Audit audit) {
    torch::manual_seed(2);
    torch::nn::Sequential model(torch::nn::Linear(4, 8), torch::nn::BatchNorm1d(8),
                                torch::nn::Dropout(0.5), torch::nn::Linear(8, 1));
    auto step = antegrad::compile(
        model, [&](const at::Tensor& x) { return model->forward(x).pow(2).mean(); },
        Options().with_audit(audit));
    for (int i = 0; i < 5; ++i) {
      step(at::randn({6, 4})).backward();
      const at::NoGradGuard no_grad;
      for (auto& p : model->parameters()) p.sub_(p.grad(), 0.01);
    }
    EXPECT_EQ(step.report().audits, audit == Audit::every ? 4 : 0);
    return Trace(*model);
  };
  const auto plain = train(Audit::off);
  const auto audited = train(Audit::every);
  EXPECT_TRUE(same_bits(plain.tensors, audited.tensors));
  EXPECT_TRUE(same_bits(plain.grads, audited.grads));
  EXPECT_TRUE(same_bits(plain.generator, audited.generator));
  EXPECT_EQ(plain.versions, audited.versions);
}

TEST(Audit, AnExceptionOfTheCallablePassesThroughAndTheNextCallWorks) {
  struct Mine : std::runtime_error {
    using std::runtime_error::runtime_error;
  };
  torch::nn::Sequential model(torch::nn::Linear(4, 4), torch::nn::BatchNorm1d(4),
                              torch::nn::Dropout(0.5));
  bool fail = true;
  auto step = antegrad::compile(
      model,
      [&](const at::Tensor& x) {
        auto y = model->forward(x);
        if (fail) throw Mine("mine");
        return y.sum();
      },
      every());
  const auto x = at::randn({3, 4});
  const auto expect_mine = [&] {
    const Trace before(*model);
    try {
      step(x);
      ADD_FAILURE() << "no error";
    } catch (const Mine& mine) {
      EXPECT_STREQ(mine.what(), "mine");
    }
    before.expect_equal(Trace(*model));
    EXPECT_EQ(capture::live_stand_ins(), 0);
  };
  expect_mine();  // in the first capture
  fail = false;
  step(x).backward();
  fail = true;
  expect_mine();  // in an audit
  fail = false;
  step(x).backward();
  EXPECT_EQ(step.report().programs.size(), 1U);
  EXPECT_EQ(step.report().compiled_calls, 2);
}

TEST(Audit, SeveralThreadsAreAuditedAtOnce) {
  const auto w = at::randn({4});
  auto step = antegrad::compile([&](const at::Tensor& x) { return (x * w).sin().sum(); }, every());
  const auto x = at::randn({4});
  const auto expected = (x * w).sin().sum();
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) wrong += !same_bits(step(x), expected);
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(step.report().programs.size(), 1U);
  EXPECT_EQ(step.report().audits, 79);
}

TEST(DeclaredGuards, AnotherValueIsAnotherProgramAndIsNamed) {
  bool flag = true;
  auto step =
      antegrad::compile([&](const at::Tensor& x) { return flag ? x.sin() : x.cos(); }, every());
  step.guard([&] { return flag; });
  const auto x = at::randn({3});
  for (int i = 0; i < 6; ++i) {
    EXPECT_TRUE(same_bits(step(x), flag ? x.sin() : x.cos()));
    flag = !flag;
  }
  const auto report = step.report();
  EXPECT_EQ(report.programs.size(), 2U);
  ASSERT_EQ(report.recompiles.size(), 1U);
  EXPECT_EQ(report.recompiles[0], "guard 0 was true, is false");
}

TEST(DeclaredGuards, AllKindsOfValues) {
  enum class Mode { sine, cosine } mode = Mode::sine;
  int n = 1;
  double scale = 0.5;
  std::string name = "a";
  std::vector<int64_t> list = {1, 2};
  std::vector<bool> bits = {true, false};
  auto step = antegrad::compile([&](const at::Tensor& x) {
    auto y = (mode == Mode::sine ? x.sin() : x.cos()) * n * scale;
    for (const auto i : list) y = y + i;
    return bits[1] ? y.exp() : name == "a" ? y.neg() : y;
  });
  step.guard([&] { return mode; })
      .guard([&] { return n; })
      .guard([&] { return scale; })
      .guard([&] { return name; })
      .guard([&] { return list; })
      .guard([&] { return bits; });
  const auto x = at::randn({3});
  const auto why = [&] {
    step(x);
    return step.report().recompiles.empty() ? "" : step.report().recompiles.back();
  };
  EXPECT_EQ(why(), "");
  mode = Mode::cosine;
  EXPECT_EQ(why(), "guard 0 was 0, is 1");
  n = 2;
  EXPECT_EQ(why(), "guard 1 was 1, is 2");
  scale = 0.25;
  EXPECT_EQ(why(), "guard 2 was 0.5, is 0.25");
  name = "b";
  EXPECT_EQ(why(), "guard 3 was \"a\", is \"b\"");
  list = {1, 2, 3};
  EXPECT_EQ(why(), "guard 4 was [1, 2], is [1, 2, 3]");
  bits = {true, true};
  EXPECT_EQ(why(), "guard 5 was [true, false], is [true, true]");
  EXPECT_EQ(step.report().programs.size(), 7U);
  EXPECT_EQ(step.report().eager_calls, 0);
}

TEST(DeclaredGuards, NanEqualsItselfAndZerosDiffer) {
  double value = std::numeric_limits<double>::quiet_NaN();
  auto step = antegrad::compile([&](const at::Tensor& x) { return x / value; });
  step.guard([&] { return value; });
  const auto x = at::ones({2});
  step(x), step(x), step(x);
  EXPECT_EQ(step.report().programs.size(), 1U);
  value = 0.0;
  EXPECT_GT(step(x)[0].item<double>(), 0);
  value = -0.0;
  EXPECT_LT(step(x)[0].item<double>(), 0);
  EXPECT_EQ(step.report().programs.size(), 3U);
}

TEST(DeclaredGuards, IsReadOncePerCall) {
  int reads = 0;
  auto step = antegrad::compile([](const at::Tensor& x) { return x.sin(); });
  step.guard([&] {
    ++reads;
    return 1;
  });
  const auto x = at::randn({3});
  for (int call = 1; call <= 3; ++call) {
    step(x);
    EXPECT_EQ(reads, call);
  }
}

TEST(DeclaredGuards, OneAddedLaterDropsTheProgramsAndSurvivesReset) {
  int flag = 0;
  auto step = antegrad::compile([&](const at::Tensor& x) { return flag == 0 ? x.sin() : x.cos(); },
                                Options().with_audit(Audit::off));
  const auto x = at::randn({3});
  step(x);
  flag = 1;
  step.guard([&] { return flag; });
  EXPECT_EQ(step.report().programs.size(), 0U);
  EXPECT_TRUE(same_bits(step(x), x.cos()));
  step.reset();
  EXPECT_TRUE(same_bits(step(x), x.cos()));
  flag = 0;
  EXPECT_TRUE(same_bits(step(x), x.sin()));
}

TEST(DeclaredGuards, WhatAGuardThrowsPassesThrough) {
  bool fail = false;
  auto step = antegrad::compile([](const at::Tensor& x) { return x.sin(); });
  step.guard([&] {
    if (fail) throw std::runtime_error("guard");
    return 1;
  });
  const auto x = at::randn({3});
  step(x);
  fail = true;
  EXPECT_THROW(step(x), std::runtime_error);
  fail = false;
  EXPECT_TRUE(same_bits(step(x), x.sin()));
  EXPECT_EQ(step.report().programs.size(), 1U);
}

TEST(HostArguments, ANanIsOneProgramAndNegativeZeroIsAnother) {
  auto step = antegrad::compile([](const at::Tensor& x, double v) { return x / v; });
  const auto x = at::ones({2});
  const double nan = std::numeric_limits<double>::quiet_NaN();
  step(x, nan), step(x, nan), step(x, nan);
  EXPECT_EQ(step.report().programs.size(), 1U);
  EXPECT_GT(step(x, 0.0)[0].item<double>(), 0);
  EXPECT_LT(step(x, -0.0)[0].item<double>(), 0);
}

TEST(HostArguments, TheOneThatDiffersIsNamedWithBothValues) {
  auto step = antegrad::compile(
      [](const at::Tensor& x, int64_t n, const std::string& how, const std::vector<double>& more) {
        auto y = x * n;
        for (const auto m : more) y = y + m;
        return how == "sin" ? y.sin() : y;
      });
  const auto x = at::randn({2});
  const std::string sin = "sin", none = "none";
  step(x, 2, sin, std::vector<double>{0.5});
  step(x, 3, sin, std::vector<double>{0.5});
  step(x, 3, none, std::vector<double>{0.5});
  step(x, 3, none, std::vector<double>{0.25});
  step(x, 3, none, std::vector<double>{});
  const auto why = step.report().recompiles;
  ASSERT_EQ(why.size(), 4U);
  EXPECT_EQ(why[0], "host value 0 of the arguments was 2, is 3");
  EXPECT_EQ(why[1], "host value 1 of the arguments was \"sin\", is \"none\"");
  EXPECT_EQ(why[2], "host value 3 of the arguments was 0.5, is 0.25");
  EXPECT_EQ(why[3], "host value 2 of the arguments was 1, is 0");
}

}  // namespace audit_test
}  // namespace antegrad::testing
