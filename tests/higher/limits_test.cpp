// What passes with create_graph refuse, and what they leave behind.

#include <ATen/ATen.h>
#include <antegrad/antegrad.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "higher/orders.h"
#include "support/bits.h"

namespace antegrad::testing {
namespace {

using ::testing::HasSubstr;
using torch::autograd::grad;

Options higher() { return Options().with_verify_graphs(true).with_higher_derivatives(true); }

at::Tensor leaf(at::IntArrayRef sizes = {3, 4}) { return at::randn(sizes).requires_grad_(); }

at::Tensor slope(const at::Tensor& of, const at::Tensor& by) {
  return grad({of}, {by}, {at::ones_like(of)}, /*retain_graph=*/true, /*create_graph=*/true)[0];
}

template <class Raised>
std::string message_of(const std::function<void()>& function) {
  try {
    function();
  } catch (const Raised& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(HigherLimits, WithoutTheOptionTheErrorNamesItAndNothingIsConsumed) {
  auto step = compile([](const at::Tensor& x) { return x.exp().sum(); });
  const auto x = leaf();
  const auto loss = step(x);
  EXPECT_THAT(message_of<BackwardError>([&] { slope(loss, x); }), HasSubstr("higher_derivatives"));
  EXPECT_TRUE(same_bits(grad({loss}, {x})[0], x.detach().exp()));
}

TEST(HigherLimits, AfterTheGraphWasFreed) {
  auto step = compile([](const at::Tensor& x) { return x.exp().sum(); }, higher());
  const auto x = leaf();
  const auto loss = step(x);
  grad({loss}, {x});
  EXPECT_THAT(message_of<BackwardError>([&] { slope(loss, x); }), HasSubstr("retain_graph"));
}

TEST(HigherLimits, TheGradientOfAResultThatGradientsWereComputedFrom) {
  const auto function = [](const at::Tensor& x) { return x.exp(); };
  auto step = compile(function, higher());
  const auto run = [&](const std::function<at::Tensor(const at::Tensor&)>& f) {
    at::manual_seed(1);
    const auto x = leaf();
    const auto y = f(x);
    const auto g = grad({y.square().sum()}, {x}, {}, true, /*create_graph=*/true)[0];
    const auto loss = g.sin().sum() + y.sum();
    auto both = grad({loss}, {y, x}, {}, true);
    both.push_back(grad({loss}, {y}, {}, true)[0]);
    both.push_back(grad({g.sum()}, {y})[0]);
    return both;
  };
  EXPECT_TRUE(same_bits(run([&](const at::Tensor& x) { return step(x); }), run(function)));
}

// What comes through the gradient is added inside of the region, where other results are, or where
// tangents have no history.
TEST(HigherLimits, TheGradientOfAResultInsideIsRefused) {
  auto step = compile([](const at::Tensor& x) { return x.exp(); }, higher());
  const auto x = leaf();
  const auto y = step(x);
  const auto g = slope(y, x);
  for (const auto& loss : {g.sum(), g.sum() + y.sum()}) {
    EXPECT_THAT(message_of<BackwardError>([&] { grad({loss}, {y}, {}, true); }),
                HasSubstr("that other results were computed from"));
  }
  EXPECT_TRUE(same_bits(grad({g.sum() + y.sum()}, {x})[0], 2 * x.detach().exp()));
}

TEST(HigherLimits, TheGradientOfAResultThatOtherResultsWereComputedFrom) {
  auto step = compile(
      [](const List& xs) -> List {
        const auto h = xs[0].exp();
        return {h, h.sin()};
      },
      higher());
  const auto x = leaf();
  const auto ys = step(List{x});
  const auto g = slope(ys[1], x);
  for (const auto& loss : {g.sum(), g.sum() + ys[0].sum()}) {
    EXPECT_THAT(message_of<BackwardError>([&] { grad({loss}, {ys[0]}, {}, true); }),
                HasSubstr("that other results were computed from"));
  }
  const auto e = x.detach().requires_grad_();
  const auto second = [](const at::Tensor& h, const at::Tensor& y, const at::Tensor& x) {
    return grad({slope(y, x).sum() + h.sum()}, {x})[0];
  };
  const auto h = e.exp();
  EXPECT_TRUE(at::allclose(second(ys[0], ys[1], x), second(h, h.sin(), e)));
}

TEST(HigherLimits, ACallableThatWritesIntoAnInputThatRequiresGrad) {
  auto step = compile(
      [](const at::Tensor& x, const at::Tensor& y) {
        y.mul_(x);
        return y.sin();
      },
      higher());
  const auto x = leaf();
  const auto y = at::ones({3, 4});
  const auto z = step(x, y);
  EXPECT_THAT(message_of<CaptureError>([&] { slope(z, x); }), HasSubstr("writes it into an input"));
  EXPECT_TRUE(same_bits(grad({z.sum()}, {x})[0], x.detach().cos()));
}

TEST(HigherLimits, ABufferThatTheCallWritesIsReadAsItWas) {
  const auto total = at::zeros({4});
  const auto function = [total](const at::Tensor& x) {
    const auto y = (x * (total + 1)).sin();
    total.add_(x.detach().sum(0));
    return y;
  };
  const auto run = [&](const std::function<at::Tensor(const at::Tensor&)>& f) {
    at::manual_seed(2);
    total.zero_();
    List all;
    for (int call = 0; call < 3; ++call) {
      const auto x = leaf();
      const auto y = f(x);
      all.push_back(grad({slope(y, x).square().sum()}, {x})[0]);
      all.push_back(total.clone());
    }
    return all;
  };
  auto step = compile(function, higher());
  EXPECT_TRUE(same_bits(run([&](const at::Tensor& x) { return step(x); }), run(function)));
}

TEST(HigherLimits, ACallableThatIsAnotherOneByThen) {
  bool other = false;
  auto step = compile([&](const at::Tensor& x) { return other ? x.sin() : x.exp(); },
                      higher().with_audit(Audit::off));
  const auto x = leaf();
  const auto y = step(x);
  other = true;
  EXPECT_THAT(message_of<BackwardError>([&] { slope(y, x); }), HasSubstr("another forward"));
  EXPECT_TRUE(same_bits(grad({y}, {x}, {at::ones_like(y)})[0], x.detach().exp()));
}

TEST(HigherLimits, AnInputThatWasChangedSince) {
  auto step =
      compile([](const at::Tensor& x, const at::Tensor& y) { return x.exp() * y; }, higher());
  const auto x = leaf();
  const auto y = at::randn({3, 4});
  const auto z = step(x, y);
  y.add_(1);
  EXPECT_THAT(message_of<c10::Error>([&] { slope(z, x); }), HasSubstr("inplace operation"));
}

TEST(HigherLimits, NumbersAreThoseOfTheCall) {
  auto step =
      compile([](const at::Tensor& x, double factor) { return (x * factor).sin(); }, higher());
  for (const double factor : {2.0, 0.5, 3.0}) {
    const auto x = leaf();
    const auto g = slope(step(x, factor), x);
    const auto second = grad({g.sum()}, {x})[0];
    const auto xe = x.detach().requires_grad_();
    const auto ge = slope((xe * factor).sin(), xe);
    EXPECT_TRUE(same_bits(g, ge));
    EXPECT_TRUE(same_bits(second, grad({ge.sum()}, {xe})[0]));
  }
}

TEST(HigherLimits, AnErrorOfTheCaptureLeavesTheGraph) {
  auto step = compile([](const at::Tensor& x) { return x.abs() * x; }, higher());
  const auto x = leaf();
  const auto y = step(x);
  // The derivative of sgn makes a tensor of zeros without memory.
  EXPECT_THROW(grad({grad({slope(y, x).sum()}, {x}, {}, true, true)[0].sum()}, {x}), Error);
  EXPECT_TRUE(same_bits(grad({y.sum()}, {x})[0], 2 * x.detach().abs()));
}

// Third order of a nonlinear loss: right, with other roundings where two passes meet at an input.
TEST(HigherLimits, ThirdOrdersOfNonlinearLossesDifferByRounding) {
  const ListFunction function = [](const List& xs) -> List {
    return {(xs[0].mm(xs[1]).tanh() * xs[0]).exp()};
  };
  at::manual_seed(4);
  const List inputs{at::randn({3, 3}, at::kDouble).requires_grad_(),
                    at::randn({3, 3}, at::kDouble).requires_grad_()};
  auto step = compile(function, higher());
  const auto eager = gradients_up_to(3, function, inputs, /*nonlinear=*/true);
  const auto found = gradients_up_to(
      3, [&](const List& xs) { return step(xs); }, inputs, /*nonlinear=*/true);
  for (size_t i = 0; i < eager.size(); ++i) {
    EXPECT_TRUE(at::allclose(found[i], eager[i], 1e-11, 0)) << i;
  }
}

TEST(HigherLimits, SeveralPassesOverOneCall) {
  const auto run = [](const ListFunction& f) {
    at::manual_seed(6);
    const auto x = leaf();
    const auto ys = f({x});
    auto loss = ys[0].sum();
    for (const auto& y : ys) loss = loss + slope(y, x).square().mean() + y.mean();
    return List{loss, grad({loss}, {x})[0]};
  };
  const ListFunction function = [](const List& xs) -> List {
    return {xs[0].mm(xs[0].t()).sin(), xs[0].exp(), xs[0].tanh()};
  };
  auto step = compile(function, higher());
  const auto found = run([&](const List&xs) { return step(xs); }), eager = run(function);
  EXPECT_TRUE(same_bits(found[0], eager[0]));
  EXPECT_TRUE(at::allclose(found[1], eager[1], 1e-5, 1e-6));
}

TEST(HigherLimits, NothingIsLeftBehind) {
  auto step = compile([](const at::Tensor& x) { return (x * x).exp().tanh(); }, higher());
  for (const bool nonlinear : {false, true}) {
    for (const int orders : {1, 2, 3}) {
      c10::weak_intrusive_ptr<c10::TensorImpl, at::UndefinedTensorImpl> alive{
          c10::intrusive_ptr<c10::TensorImpl, at::UndefinedTensorImpl>()};
      {
        const auto x = leaf();
        alive = decltype(alive)(x.getIntrusivePtr());
        auto last = step(x);
        for (int order = 0; order < orders; ++order) {
          const auto sum = nonlinear ? last.square().sum() : last.sum();
          last = grad({sum}, {x}, {}, true, /*create_graph=*/true)[0];
        }
      }
      EXPECT_TRUE(alive.expired()) << orders << " orders, nonlinear " << nonlinear;
    }
  }
}

TEST(HigherLimits, FromSeveralThreads) {
  auto step = compile([](const at::Tensor& x) { return (x * x).exp().tanh(); }, higher());
  std::vector<std::thread> threads;
  std::vector<int> failures(4, 0);
  for (size_t t = 0; t < failures.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        const auto x = at::rand({3, 4}).requires_grad_();
        const auto run = [&](const auto& f) {
          const auto y = f(x);
          return grad({slope(y, x).square().sum() + y.sum()}, {x})[0];
        };
        const auto found = run([&](const at::Tensor& x) { return step(x); });
        const auto eager = run([](const at::Tensor& x) { return (x * x).exp().tanh(); });
        failures[t] += !same_bits(found, eager);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(failures, std::vector<int>(4, 0));
}

}  // namespace
}  // namespace antegrad::testing
