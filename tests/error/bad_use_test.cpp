// User errors raise a typed error that says what was found and what to do. Inputs, gradients,
// parameters and generator states stay as they were.

#include <ATen/ATen.h>
#include <antegrad/antegrad.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/utils.h>

#include <thread>

#include "capture/stand_in.h"
#include "support/bits.h"

namespace antegrad::testing {
namespace bad_use_test {

// The state that a failed call must leave unchanged.
class World {
 public:
  World() {
    torch::manual_seed(3);
    module = torch::nn::Linear(4, 4);
    x = at::randn({2, 4}).set_requires_grad(true);
    module->weight.mutable_grad() = at::ones({4, 4});
    remember();
  }

  void expect_untouched() const {
    EXPECT_TRUE(same_bits(before_, state()));
    EXPECT_TRUE(same_bits(generator_, generator_state()));
    EXPECT_TRUE(module->weight.requires_grad());
    EXPECT_TRUE(x.requires_grad());
    EXPECT_EQ(module->weight._version(), version_);
    EXPECT_EQ(capture::live_stand_ins(), 0);
    EXPECT_FALSE(x.grad().defined());
  }

  torch::nn::Linear module{nullptr};
  at::Tensor x;

 private:
  std::vector<at::Tensor> state() const {
    return {module->weight, module->bias, module->weight.grad(), module->bias.grad(), x};
  }
  void remember() {
    before_ = clone_all(state());
    generator_ = generator_state();
    version_ = module->weight._version();
  }

  std::vector<at::Tensor> before_;
  at::Tensor generator_;
  int64_t version_ = 0;
};

// Expects that the compiled callable throws E with these words and leaves the world unchanged, and
// that an ordinary callable still compiles afterwards.
template <class E, class Fn>
void expect_refused(World& world, Fn fn, const std::vector<std::string>& words) {
  auto step = antegrad::compile(world.module, fn);
  try {
    step(world.x);
    ADD_FAILURE() << "no error";
  } catch (const E& error) {
    for (const auto& word : words) {
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
    }
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another error: " << error.what();
  }
  world.expect_untouched();
  auto good = antegrad::compile(
      world.module, [&](const at::Tensor& x) { return world.module->forward(x).sum(); });
  EXPECT_TRUE(same_bits(good(world.x), world.module->forward(world.x).sum()));
  EXPECT_EQ(good.report().eager_calls, 0);
}

TEST(BadUse, ItemInside) {
  World w;
  expect_refused<DataDependentError>(
      w, [&](const at::Tensor& x) { return x * w.module->weight.sum().item<float>(); },
      {"aten::_local_scalar_dense", "bad_use_test.cpp:"});
}

TEST(BadUse, AnExceptionInsideTheCallableComesThrough) {
  World w;
  struct Mine : std::runtime_error {
    using std::runtime_error::runtime_error;
  };
  expect_refused<Mine>(w,
                       [&](const at::Tensor& x) -> at::Tensor {
                         auto y = w.module->forward(at::dropout(x, 0.5, true));
                         throw Mine("mine");
                       },
                       {"mine"});
}

TEST(BadUse, AnErrorOfLibtorchComesThrough) {
  World w;
  expect_refused<c10::Error>(w,
                             [&](const at::Tensor& x) {
                               return x.matmul(at::ones({3, 3}));
                             },
                             {"mat1 and mat2"});
}

TEST(BadUse, CaptureInsideCapture) {
  World w;
  auto inner = antegrad::compile([](const at::Tensor& x) { return x * 2; });
  expect_refused<NestedCaptureError>(w, [&](const at::Tensor& x) { return inner(x).sum(); },
                                     {"inside another"});
}

TEST(BadUse, BackwardInside) {
  World w;
  expect_refused<CaptureError>(w,
                               [&](const at::Tensor& x) {
                                 auto y = w.module->forward(x).sum();
                                 y.backward();
                                 return y.detach();
                               },
                               {"backward"});
}

TEST(BadUse, AKeptIntermediate) {
  World w;
  at::Tensor kept;
  auto step = antegrad::compile(w.module, [&](const at::Tensor& x) {
    kept = w.module->forward(x).detach();
    return kept.sum();
  });
  EXPECT_THROW(step(w.x), EscapeError);
  EXPECT_THROW(kept + 1, EscapeError);
  kept = at::Tensor();
  w.expect_untouched();
}

TEST(BadUse, RequiresGradOfAParameter) {
  World w;
  expect_refused<CaptureError>(w,
                               [&](const at::Tensor& x) {
                                 auto y = w.module->forward(x).sum();
                                 w.module->weight.requires_grad_(false);
                                 return y;
                               },
                               {"requires_grad"});
}

TEST(BadUse, TheGradientOfATensorWithoutAModuleTakenAway) {
  World w;
  auto loose = at::ones({4}).set_requires_grad(true);
  loose.mutable_grad() = at::ones({4});
  expect_refused<EscapeError>(w,
                              [&](const at::Tensor& x) {
                                auto y = (x * loose).sum();
                                loose.mutable_grad() = at::Tensor();
                                return y;
                              },
                              {".grad"});
  EXPECT_TRUE(same_bits(loose.grad(), at::ones({4})));
}

TEST(BadUse, SetDataOfAParameter) {
  World w;
  expect_refused<CaptureError>(w,
                               [&](const at::Tensor& x) {
                                 w.module->weight.set_data(at::zeros({4, 4}));
                                 return w.module->forward(x).sum();
                               },
                               {});
}

TEST(BadUse, AnArgumentThatTheCallableMakesStartElsewhere) {
  auto step = antegrad::compile([](const at::Tensor& x) {
    x.as_strided_({2}, {1}, 1);
    return x + 1;
  });
  const auto x = at::arange(3, at::kFloat);
  EXPECT_THROW(step(x), MutationError);
  EXPECT_TRUE(same_bits(x, at::arange(3, at::kFloat)));
}

TEST(BadUse, SparseArgument) {
  auto step = antegrad::compile([](const at::Tensor& x) { return x.sum(); });
  EXPECT_THROW(step(at::eye(3).to_sparse()), TensorKindError);
  EXPECT_NO_THROW(step(at::eye(3)));
  EXPECT_THROW(step(at::eye(3).to_sparse()), TensorKindError);  // guards exist now
}

TEST(BadUse, AWrongNumberOrKindOfArgumentsDoesNotCompile) {
  const auto fn = [](const at::Tensor& x, double scale) { return x * scale; };
  using Step = Compiled<std::decay_t<decltype(fn)>>;
  static_assert(std::is_invocable_v<Step&, at::Tensor, double>);
  static_assert(!std::is_invocable_v<Step&, at::Tensor>);
  static_assert(!std::is_invocable_v<Step&, at::Tensor, double, at::Tensor>);
  static_assert(!std::is_invocable_v<Step&, at::Tensor, std::string>);
  const auto writes = [](at::Tensor& x) { return x; };
  static_assert(!std::is_invocable_v<Compiled<std::decay_t<decltype(writes)>>&, at::Tensor>);
}

TEST(BadUse, AStandInOnAnotherThread) {
  World w;
  expect_refused<CaptureError>(w,
                               [&](const at::Tensor& x) {
                                 auto y = w.module->forward(x);
                                 std::exception_ptr error;
                                 std::thread([&] {
                                   try {
                                     y = y * 3;
                                   } catch (...) {
                                     error = std::current_exception();
                                   }
                                 }).join();
                                 if (error) std::rethrow_exception(error);
                                 return y.sum();
                               },
                               {"thread"});
}

TEST(BadUse, DoubleBackward) {
  World w;
  auto step =
      antegrad::compile(w.module, [&](const at::Tensor& x) { return w.module->forward(x).sum(); });
  auto loss = step(w.x);
  EXPECT_THROW(loss.backward({}, /*retain_graph=*/true, /*create_graph=*/true), BackwardError);
  w.expect_untouched();
  loss.backward();
  EXPECT_TRUE(w.x.grad().defined());
}

TEST(BadUse, ASecondBackwardWithoutRetainGraph) {
  World w;
  auto step = antegrad::compile(
      w.module, [&](const at::Tensor& x) { return w.module->forward(x).tanh().sum(); });
  auto loss = step(w.x);
  loss.backward({}, /*retain_graph=*/true);
  const auto first = w.x.grad().clone();
  loss.backward();
  EXPECT_TRUE(same_bits(w.x.grad(), first + first));
  EXPECT_THROW(loss.backward(), BackwardError);
}

TEST(BadUse, AParameterChangedBetweenForwardAndBackward) {
  World w;
  auto step = antegrad::compile(
      w.module, [&](const at::Tensor& x) { return w.module->forward(x).tanh().sum(); });
  auto loss = step(w.x);
  {
    const at::NoGradGuard guard;
    w.module->weight.add_(1);
  }
  EXPECT_THROW(loss.backward(), c10::Error);
}

TEST(BadUse, AResultChangedBetweenForwardAndBackward) {
  auto step = antegrad::compile([](const at::Tensor& x) { return x.exp(); });
  const auto x = at::randn({3}).set_requires_grad(true);
  auto y = step(x);
  {
    const at::NoGradGuard guard;
    y.detach().add_(1);
  }
  EXPECT_THROW(y.sum().backward(), std::exception);
}

TEST(BadUse, AnUndefinedTangentIsNotZeros) {
  auto step = antegrad::compile([](const at::Tensor& x) {
    return std::pair{x.log().sum(), (x * 2).sum()};
  });
  const auto x = at::zeros({3}).set_requires_grad(true);
  const auto [a, b] = step(x);
  b.backward();  // a zero tangent of `a` would give 0 / 0
  EXPECT_TRUE(same_bits(x.grad(), at::full({3}, 2.0F)));
}

TEST(BadUse, OptionsOutOfRange) {
  EXPECT_THROW(
      antegrad::compile([](const at::Tensor& x) { return x; }, Options().with_max_programs(0)),
      OptionError);
}

TEST(BadUse, ATensorSubclass) {
  const auto plain = at::ones({3});
  const auto subclass = plain.clone();
  subclass.unsafeGetTensorImpl()->set_python_dispatch(true);
  const auto doubled = [](const at::Tensor& /*subclass*/, const at::Tensor& x) { return x * 2; };
  auto step = antegrad::compile(doubled);
  try {
    step(subclass, plain);
    ADD_FAILURE() << "no error";
  } catch (const TensorKindError& error) {
    EXPECT_NE(std::string(error.what()).find("a tensor subclass"), std::string::npos);
  }
  auto eagerly = antegrad::compile(doubled, Options().with_on_refusal(OnRefusal::eager));
  EXPECT_TRUE(same_bits(eagerly(subclass, plain), plain * 2));
  ASSERT_EQ(eagerly.report().eager_reasons.size(), 1U);
  EXPECT_NE(eagerly.report().eager_reasons.begin()->first.find("subclass"), std::string::npos);
}

TEST(BadUse, TheEagerOptionRunsTheCallableAndCountsWhy) {
  auto step = antegrad::compile([](const at::Tensor& x) { return x * x.sum().item<float>(); },
                                Options().with_on_refusal(OnRefusal::eager));
  const auto x = at::randn({3});
  EXPECT_TRUE(same_bits(step(x), x * x.sum().item<float>()));
  const auto report = step.report();
  EXPECT_EQ(report.eager_calls, 1);
  ASSERT_EQ(report.eager_reasons.size(), 1U);
  EXPECT_NE(report.eager_reasons.begin()->first.find("_local_scalar_dense"), std::string::npos);
}

}  // namespace bad_use_test
}  // namespace antegrad::testing
