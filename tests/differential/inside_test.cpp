// Functions for use inside a callable, for host data and for code that needs data pointers,
// compared with eager.

#include <ATen/ATen.h>
#include <antegrad/inside.h>

#include "support/parity.h"

namespace antegrad::testing {
namespace inside_test {

using List = std::vector<at::Tensor>;

at::Tensor leaf(at::IntArrayRef sizes) { return at::randn(sizes).set_requires_grad(true); }

// ---- constant -----------------------------------------------------------------------------------

TEST(Constant, HostValuesTakePartInForwardAndBackward) {
  expect_function_parity(
      [](const List& a) -> List {
        auto w = constant(std::vector<float>{1, -2, 3});
        auto i = constant(std::vector<int64_t>{2, 0});
        auto d = constant(std::vector<double>{0.5, 0.25, 4});
        return {(a[0] * w).sum() + a[0].index({i}).sum(), (a[0] * d).sum()};
      },
      {leaf({3})});
}

TEST(Constant, MakeRunsOnRealTensors) {
  expect_function_parity(
      [](const List& a) -> List {
        auto table = constant([] {
          auto t = at::empty({3, 2});
          auto* data = t.mutable_data_ptr<float>();
          for (int i = 0; i < 6; ++i) data[i] = static_cast<float>(i);
          return t.t().mul_(t.sum().item<float>());
        });
        return {a[0].matmul(table)};
      },
      {leaf({4, 2})});
}

TEST(Constant, ReturnedOrWrittenTheProgramsOwnStaysAsItIs) {
  auto step = antegrad::compile([](const at::Tensor& x) {
    auto c = constant(std::vector<float>{1, 2});
    auto w = constant(std::vector<float>{1, 2});
    w.mul_(x);
    return std::pair{c, w};
  });
  const auto x = at::full({2}, 3.0f);
  for (int i = 0; i < 2; ++i) {
    auto [c, w] = step(x);
    EXPECT_TRUE(same_bits(c, at::tensor({1.0f, 2.0f})));
    EXPECT_TRUE(same_bits(w, at::tensor({3.0f, 6.0f})));
    c.add_(1);
    w.add_(1);
  }
}

// ---- opaque -------------------------------------------------------------------------------------

// x * y, elementwise, through data pointers.
Opaque product() {
  Opaque code;
  code.name = "product";
  code.compute = [](const List& in) -> List {
    auto out = at::empty_like(in[0]);
    const auto x = in[0].contiguous(), y = in[1].contiguous();
    EXPECT_FALSE(at::GradMode::is_enabled());
    for (int64_t i = 0; i < x.numel(); ++i) {
      out.mutable_data_ptr<float>()[i] = x.data_ptr<float>()[i] * y.data_ptr<float>()[i];
    }
    return {out};
  };
  code.shapes = [](const List& in) -> List { return {at::empty_like(in[0])}; };
  code.backward = [](const List& in) -> List { return {in[1] * in[2], in[0] * in[2]}; };
  return code;
}

TEST(Opaque, EqualsEagerInResultsAndGradients) {
  expect_function_parity(
      [](const List& a) -> List {
        auto z = opaque(product(), {a[0] * 2, a[1]})[0];
        return {opaque(product(), {z, a[0]})[0].sum()};
      },
      {leaf({3, 4}), leaf({3, 4})});
}

TEST(Opaque, GradientsAreTheDerivative) {
  auto step = antegrad::compile([](const at::Tensor& x, const at::Tensor& y) {
    return opaque(product(), {x, y})[0].sum();
  });
  const auto x = leaf({5}), y = leaf({5});
  step(x, y).backward();
  EXPECT_TRUE(same_bits(x.grad(), y.detach()));
  EXPECT_TRUE(same_bits(y.grad(), x.detach()));
}

TEST(Opaque, OnlySomeInputsRequireGrad) {
  expect_function_parity(
      [](const List& a) -> List {
        return {opaque(product(), {a[0], a[1]})[0]};
      },
      {leaf({3}), at::randn({3})});
}

TEST(Opaque, AParameterHeldByClosure) {
  const auto weight = leaf({3});
  const auto fn = [&](const at::Tensor& x) { return opaque(product(), {weight, x})[0].sum(); };
  auto step = antegrad::compile(fn);
  const auto x = at::randn({3});
  step(x).backward();
  EXPECT_TRUE(same_bits(weight.grad(), x));
}

// The largest element and its square; its code may branch on data.
Opaque largest() {
  Opaque code;
  code.name = "largest";
  code.compute = [](const List& in) -> List {
    float best = -1;
    for (int64_t i = 0; i < in[0].numel(); ++i) {
      if (const float v = in[0].contiguous().data_ptr<float>()[i]; v > best) best = v;
    }
    return {at::scalar_tensor(best), at::scalar_tensor(best * best)};
  };
  code.shapes = [](const List& in) -> List {
    return {at::empty({}, in[0].options()), at::empty({}, in[0].options())};
  };
  return code;
}

TEST(Opaque, WithoutBackwardItsOutputsDoNotRequireGrad) {
  expect_function_parity(
      [](const List& a) -> List {
        auto both = opaque(largest(), {a[0]});
        EXPECT_FALSE(both[0].requires_grad());
        return {both[0] * a[0], both[1]};
      },
      {leaf({6})});
}

// Two outputs of which only one may be used, and a gradient that may be undefined.
Opaque twice_and_thrice() {
  Opaque code;
  code.name = "twice_and_thrice";
  code.compute = [](const List& in) -> List { return {in[0] * 2, in[0] * 3}; };
  code.shapes = [](const List& in) -> List {
    return {at::empty_like(in[0]), at::empty_like(in[0])};
  };
  code.backward = [](const List& in) -> List {
    at::Tensor sum;
    if (in[2].defined()) sum = in[2] * 2;
    if (in[3].defined()) sum = sum.defined() ? sum + in[3] * 3 : in[3] * 3;
    return {sum, at::Tensor()};
  };
  return code;
}

TEST(Opaque, AnUnusedOutputHasAnUndefinedGradient) {
  expect_function_parity(
      [](const List& a) -> List {
        return {opaque(twice_and_thrice(), {a[0], a[1]})[1].sum() + a[1].sum()};
      },
      {leaf({3}), leaf({2})});
}

TEST(Opaque, StridesReachItAsInEager) {
  std::vector<std::vector<int64_t>> seen;
  Opaque code;
  code.name = "strides";
  code.compute = [&](const List& in) -> List {
    seen.push_back(in[0].strides().vec());
    return {in[0].clone()};
  };
  const auto fn = [&](const at::Tensor& x) { return opaque(code, {(x + 1).t()})[0]; };
  const auto x = at::randn({3, 4});
  fn(x);
  antegrad::compile(fn)(x);
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_EQ(seen[0], seen[1]);
}

// ---- what looks at data in eager and need not ---------------------------------------------------

at::Tensor indices(std::vector<int64_t> values) { return at::tensor(values); }

TEST(Indexing, OneHotWithAGivenNumberOfClasses) {
  expect_function_parity(
      [](const List& a) -> List {
        return {at::one_hot(a[0], 4), at::one_hot(a[0], 4) * a[1]};
      },
      {indices({2, 0, 3}), leaf({4})});
}

TEST(Indexing, OneHotOutOfRangeIsAnErrorOfTheCall) {
  auto step = antegrad::compile([](const at::Tensor& x) { return at::one_hot(x, 4) + 0; });
  step(indices({1, 2}));
  EXPECT_THROW(step(indices({1, 4})), c10::Error);
  EXPECT_THROW(step(indices({-1, 2})), c10::Error);
  EXPECT_TRUE(same_bits(step(indices({3, 0})), at::one_hot(indices({3, 0}), 4)));
  EXPECT_EQ(step.report().programs.size(), 1U);
}

TEST(Indexing, MaskedWritesAndSelections) {
  expect_function_parity(
      [](const List& a) -> List {
        auto x = a[0] * 1;
        x.index_put_({a[1]}, at::scalar_tensor(0.0));
        auto y = a[0].masked_fill(a[1], 2.5);
        auto z = at::where(a[1], a[0], a[0] * 3);
        return {x, y, z};
      },
      {leaf({3, 4}), at::randn({3, 4}) > 0});
}

// ---- hooks --------------------------------------------------------------------------------------

TEST(Hooks, OnAnIntermediateTensorAreInlined) {
  expect_function_parity(
      [](const List& a) -> List {
        auto y = a[0] * 2;
        if (y.requires_grad()) {
          y.register_hook([](const at::Tensor& grad) { return grad * grad + 1; });
        }
        return {(y * y).sum()};
      },
      {leaf({3})});
}

}  // namespace inside_test
}  // namespace antegrad::testing
