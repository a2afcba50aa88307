// ag::dynamic: numbers that are inputs of a program.

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <limits>

#include "support/parity.h"

namespace antegrad::testing {
namespace dynamic_test {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kValues[] = {0.1, -3.0, 1e-30, 1e30, 0.0, -0.0, 1.0 / 3.0, kInf, -kInf, NAN};

// Expects as many programs as `programs`, and the same errors, bits, gradients included, as eager
// with plain numbers.
template <class Number, class Fn>
Report expect_as_number(const at::Tensor& x, const std::vector<Number>& values, size_t programs,
                        Fn fn, Options options = {}) {
  auto step = antegrad::compile(fn, options.with_verify_graphs(true));
  bool refused = false;
  for (const auto value : values) {
    const bool differentiable = at::isFloatingType(x.scalar_type());
    auto a = x.clone().set_requires_grad(differentiable);
    auto b = x.clone().set_requires_grad(differentiable);
    at::Tensor expected;
    try {
      expected = fn(a, value);
    } catch (const std::exception&) {  // such as a number beyond half precision
      EXPECT_ANY_THROW(step(b, antegrad::dynamic(value)));
      refused = true;
      continue;
    }
    const at::Tensor found = step(b, antegrad::dynamic(value));
    EXPECT_EQ(expected.scalar_type(), found.scalar_type());
    EXPECT_TRUE(same_numbers(expected, found)) << value;
    EXPECT_EQ(expected.requires_grad(), found.requires_grad());
    if (!expected.requires_grad()) continue;
    const auto tangent = at::randn_like(expected);
    for (const bool retain : {true, false}) {
      expected.backward(tangent, retain);
      found.backward(tangent, retain);
      EXPECT_TRUE(same_numbers(a.grad(), b.grad())) << value;
    }
  }
  const auto report = step.report();
  if (!refused) {
    EXPECT_EQ(report.programs.size(), programs);
  }
  EXPECT_LE(report.programs.size(), programs);
  EXPECT_EQ(report.eager_calls, 0);
  return report;
}

class DynamicOf : public ::testing::TestWithParam<at::ScalarType> {
 protected:
  template <class Fn>
  void expect_one_program(Fn fn) const {
    for (const auto& sizes : {std::vector<int64_t>{5, 7}, std::vector<int64_t>{}}) {
      const auto x = at::randn(sizes).mul(3).to(GetParam());
      expect_as_number(x, std::vector<double>(std::begin(kValues), std::end(kValues)), 1, fn);
      expect_as_number(x, std::vector<int>{3, -2, 0, 1}, 1, fn);
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Dtypes, DynamicOf,
                         ::testing::Values(at::kFloat, at::kDouble, at::kHalf, at::kBFloat16,
                                           at::kLong, at::kInt));

TEST_P(DynamicOf, Mul) {
  expect_one_program([](const at::Tensor& x, const auto& v) { return x * v; });
  expect_one_program([](const at::Tensor& x, const auto& v) { return v * x; });
}
TEST_P(DynamicOf, AddAndSub) {
  expect_one_program([](const at::Tensor& x, const auto& v) { return v + x - v; });
  expect_one_program([](const at::Tensor& x, const auto& v) { return v - x; });
}
TEST_P(DynamicOf, Div) {
  expect_one_program([](const at::Tensor& x, const auto& v) { return x / v; });
  expect_one_program([](const at::Tensor& x, const auto& v) { return v / x; });
}
TEST_P(DynamicOf, Comparisons) {
  expect_one_program(
      [](const at::Tensor& x, const auto& v) { return x.gt(v).logical_or(x.eq(v)); });
}
TEST_P(DynamicOf, Clamp) {
  expect_one_program([](const at::Tensor& x, const auto& v) { return at::clamp(x, v); });
  expect_one_program([](const at::Tensor& x, const auto& v) { return at::clamp_max(x, v); });
}

const std::vector<double> kUsual = {0.5, 0.25, -2.0, 3.0};

TEST(Dynamic, ScalarArgumentsOfOneProgram) {
  const auto x = at::randn({4, 3});
  const auto one = [&](auto fn) { expect_as_number(x, kUsual, 1, fn); };
  one([](const at::Tensor& x, const auto& v) { return at::add(x.sin(), x, v); });
  one([](const at::Tensor& x, const auto& v) { return at::sub(x, x.sin(), v); });
  one([](const at::Tensor& x, const auto& v) { return at::leaky_relu(x, v); });
  one([](const at::Tensor& x, const auto& v) { return at::threshold(x, v, v); });
  one([](const at::Tensor& x, const auto& v) { return at::masked_fill(x, x > 0, v); });
  one([](const at::Tensor& x, const auto& v) { return x * at::full({3}, v); });
  one([](const at::Tensor& x, const auto& v) { return x * at::full_like(x, v); });
  one([](const at::Tensor& x, const auto& v) { return at::addcmul(x, x, x.sin(), v); });
  one([](const at::Tensor& x, const auto& v) {
    return at::addmm(x.sum(0), x, x.narrow(0, 0, 3), v, v);
  });
  one([](const at::Tensor& x, const auto& v) { return x.clone().mul_(v).add_(x, v).clamp_(v, 3); });
}

TEST(Dynamic, WritesOfHalfPrecisionRoundTheNumberAsInEager) {
  const auto x = at::randn({33}).to(at::kBFloat16);
  expect_as_number(x, std::vector<double>{0.1, 1.0 / 3.0}, 2,
                   [](const at::Tensor& x, const auto& v) { return x.clone().mul_(v); });
}

TEST(Dynamic, AComparisonOfADerivativeIsACondition) {
  // The derivative multiplies by alpha unless it is 1.
  const auto report =
      expect_as_number(at::randn({4}), std::vector<double>{0.5, 2.0, 1.0, 0.25, 1.0, 3.0}, 2,
                       [](const at::Tensor& x, const auto& v) { return at::add(x.sin(), x, v); });
  EXPECT_EQ(report.recompiles.size(), 1U);
  EXPECT_EQ(report.recompiles.at(0), "(n1 == 1.0) was false, is true");
}

TEST(Dynamic, ANumberThatDecidesHasAProgramForEachValue) {
  const auto x = at::rand({4});
  const auto each = [&](auto fn) {
    expect_as_number(x, std::vector<double>{2.0, 0.5, 3.0, 0.5}, 3, fn);
  };
  each([](const at::Tensor& x, const auto& v) { return x.pow(v); });       // its derivative
  each([](const at::Tensor& x, const auto& v) { return x.lerp(-x, v); });  // its derivative
  each([](const at::Tensor& x, const auto& v) { return at::arange(v).sum() * x; });
  const auto report = expect_as_number(
      x, std::vector<int>{2, 3, 2}, 2,
      [](const at::Tensor& x, const auto& v) { return at::arange(v) + x.sum() * v; });
  EXPECT_NE(
      report.recompiles.at(0).find("argument 1, a number that decides something, was 2, is 3"),
      std::string::npos)
      << report.recompiles.at(0);
}

TEST(Dynamic, WithoutGradientsAPowerDoesNotDecide) {
  const at::NoGradGuard no_grad;
  auto step = antegrad::compile([](const at::Tensor& x, Dynamic<double> v) { return x.pow(v); });
  const auto x = at::rand({7});
  for (const double v : {2.0, 0.5, 1.0, 3.3, 0.0}) {
    EXPECT_TRUE(same_bits(step(x, dynamic(v)), x.pow(v))) << v;
  }
  EXPECT_EQ(step.report().programs.size(), 1U);
}

TEST(Dynamic, OneOfTwoNumbersDecides) {
  auto step = antegrad::compile([](const at::Tensor& x, Dynamic<int> n, Dynamic<double> rate) {
    return x.repeat({n.value()}) * rate;
  });
  const auto x = at::randn({3});
  for (const int n : {2, 3}) {
    for (const double rate : {0.1, 0.2, 0.3}) {
      EXPECT_TRUE(same_bits(step(x, dynamic(n), dynamic(rate)), x.repeat({n}) * rate));
    }
  }
  EXPECT_EQ(step.report().programs.size(), 2U);
  EXPECT_EQ(step.report().eager_calls, 0);
}

TEST(Dynamic, ArithmeticIsComputedBeforeTheCall) {
  const auto x = at::randn({5});
  expect_as_number(x, kUsual, 1, [](const at::Tensor& x, const auto& v) {
    return x * (1 - v) + x.sin() * v / (v + 4) - x.cos() * (2.0 * v - 0.5);
  });
  expect_as_number(x, std::vector<int>{1, 2, 50}, 1, [](const at::Tensor& x, const auto& v) {
    return x * (v * 3 - 2) + x * (v + 0.5) * (v / 7.0);
  });
}

TEST(Dynamic, ArithmeticThatCannotBeComputedBeforeHasItsOwnProgram) {
  expect_as_number(at::randn({5}), std::vector<double>{2.0, 0.0, 4.0}, 2,
                   [](const at::Tensor& x, const auto& v) { return x * (1.0 / v); });
}

TEST(Dynamic, Bools) {
  auto step = antegrad::compile(
      [](const at::Tensor& x, Dynamic<bool> on) { return x.to(at::kBool).masked_fill(x > 0, on); });
  const auto x = at::randn({9});
  for (const bool on : {true, false}) {
    EXPECT_TRUE(same_bits(step(x, dynamic(on)), x.to(at::kBool).masked_fill(x > 0, on)));
  }
  EXPECT_EQ(step.report().programs.size(), 1U);
}

TEST(Dynamic, AsAResult) {
  auto step = antegrad::compile([](const at::Tensor& x, Dynamic<double> rate) {
    return std::tuple{x * rate, rate, 1 - rate};
  });
  for (const double rate : {0.1, 0.25}) {
    const auto [y, same, rest] = step(at::ones({2}), dynamic(rate));
    EXPECT_EQ(same.value(), rate);
    EXPECT_EQ(rest.value(), 1 - rate);
    EXPECT_TRUE(same_bits(y, at::ones({2}) * rate));
  }
  EXPECT_EQ(step.report().programs.size(), 1U);
}

TEST(Dynamic, APlainNumberIsAConstantOfAProgram) {
  auto step = antegrad::compile([](const at::Tensor& x, const auto& v) { return x * v; });
  const auto x = at::randn({4});
  step(x, 0.1), step(x, 0.2);
  EXPECT_EQ(step.report().programs.size(), 2U);
  step(x, dynamic(0.1)), step(x, dynamic(0.2)), step(x, dynamic(0.3));
  EXPECT_EQ(step.report().programs.size(), 3U);
}

TEST(Dynamic, InStructuresAndContainers) {
  auto step = antegrad::compile([](at::Tensor x, const std::vector<Dynamic<float>>& factors,
                                   const std::optional<Dynamic<double>>& bias) {
    for (const auto& f : factors) x = x * f;
    return bias ? x + *bias : x;
  });
  const auto x = at::randn({4});
  const auto call = [&](float a, float b, double c) {
    const std::vector<Dynamic<float>> factors = {dynamic(a), dynamic(b)};
    const std::optional<Dynamic<double>> bias = dynamic(c);
    EXPECT_TRUE(same_bits(step(x, factors, bias), x * a * b + c));
  };
  call(2, 3, 0.5);
  call(4, 4, 0.25);  // equal numbers are not one number
  call(4, 5, 0.25);
  EXPECT_EQ(step.report().programs.size(), 1U);
}

TEST(Dynamic, ANumberThatIsKeptIsAConstant) {
  std::optional<Dynamic<double>> kept;
  auto step = antegrad::compile(
      [&](const at::Tensor& x, Dynamic<double> v) {
        kept = v;
        return x * v;
      },
      Options().with_audit(Audit::off));
  const auto x = at::randn({3});
  for (const double v : {0.1, 0.2}) EXPECT_TRUE(same_bits(step(x, dynamic(v)), x * v));
  EXPECT_EQ(kept->value(), 0.2);
  EXPECT_EQ(step.report().programs.size(), 2U);
}

TEST(Dynamic, AnErrorOfTheCallableReachesTheCaller) {
  auto step = antegrad::compile([](const at::Tensor& x, Dynamic<double> v) {
    if (v.value() < 0) throw std::invalid_argument("negative");
    return x * v;
  });
  EXPECT_THROW(step(at::randn({3}), dynamic(-1.0)), std::invalid_argument);
  const auto x = at::randn({3});
  EXPECT_TRUE(same_bits(step(x, dynamic(2.0)), x * 2.0));
}

TEST(Dynamic, TheAuditDoesNotMindItsValue) {
  auto step = antegrad::compile([](const at::Tensor& x, Dynamic<double> v) { return x * v; },
                                Options().with_audit(Audit::every));
  const auto x = at::randn({3});
  for (const double value : kValues) EXPECT_TRUE(same_bits(step(x, dynamic(value)), x * value));
  EXPECT_EQ(step.report().audits, 9);
}

TEST(Dynamic, CallsAreCheckedAgainstEager) {
  auto step =
      antegrad::compile([](const at::Tensor& x, Dynamic<double> v) { return (x * v).add(x, v); },
                        Options().with_check_against_eager(4));
  for (const double v : {0.1, 2.0, 0.3, 0.7}) step(at::randn({3}).requires_grad_(), dynamic(v));
  EXPECT_EQ(step.report().checked_calls, 4);
}

TEST(Dynamic, ABackwardCapturedLaterHasTheNumber) {
  const auto fn = [](const at::Tensor& x, const at::Tensor& w, const auto& v) {
    return std::pair{x * v * w, at::clamp(w.sin() * v, -0.5, v)};
  };
  auto step = antegrad::compile(fn);
  const auto x = at::randn({3});
  for (const double v : {0.3, 0.6, 0.9}) {
    auto a = at::randn({3}), b = a.clone();
    a.requires_grad_(), b.requires_grad_();
    const auto y = x.clone().requires_grad_();
    const auto z = x.clone().requires_grad_();
    fn(y, a, v).second.sum().backward();  // the other result has no tangent
    step(z, b, dynamic(v)).second.sum().backward();
    EXPECT_TRUE(same_bits(a.grad(), b.grad()));
    const auto first = fn(y, a, v);
    const auto second = step(z, b, dynamic(v));
    const auto t = at::randn({6}).as_strided({3}, {2});
    EXPECT_TRUE(same_bits(torch::autograd::grad({first.first}, {y}, {t})[0],
                          torch::autograd::grad({second.first}, {z}, {t})[0]));
  }
  EXPECT_EQ(step.report().programs.size(), 1U);
}

TEST(Dynamic, ARecomputedNodeHasTheNumberOfItsCall) {
  const auto fn = [](at::Tensor x, const auto& v) {
    for (int i = 0; i < 6; ++i) x = (x * v).sin().exp().clamp(v, 5.0);
    return x;
  };
  const auto smallest = Options().with_activation_memory_budget(0.0);
  const auto x = at::randn({64, 32});
  const auto report = expect_as_number(x, std::vector<double>{0.5, 0.7, 0.9}, 1, fn, smallest);
  EXPECT_FALSE(report.programs.at(0).recomputed.empty());
}

TEST(Dynamic, HooksOnSavedTensorsDoNotSeeNumbers) {
  const auto fn = [](const at::Tensor& x, const auto& v) { return x.sin().mul(v).exp(); };
  auto step =
      antegrad::compile(fn, Options().with_saved_tensors_hooks_filtering_mode(HookFilter::all));
  const auto half = [](const at::Tensor& t) { return t * 0.5; };
  const auto twice = [](const at::Tensor& t) { return t * 2.0; };
  const SavedTensorHooks scope(Hooks(half, twice, {.name = "halves"}));
  const auto x = at::randn({16}).requires_grad_();
  for (const double v : {0.1, 0.2}) {
    EXPECT_TRUE(same_bits(torch::autograd::grad({step(x, dynamic(v)).sum()}, {x})[0],
                          torch::autograd::grad({fn(x, v).sum()}, {x})[0]));
  }
  const auto report = step.report();
  ASSERT_EQ(report.programs.size(), 1U);
  EXPECT_GE(report.programs[0].hooked.size(), 2U);
  for (const auto& hooked : report.programs[0].hooked) {
    EXPECT_EQ(hooked.find("f64"), std::string::npos) << hooked;
  }
}

TEST(Dynamic, NewSizesKeepTheNumber) {
  auto step = antegrad::compile([](const at::Tensor& x, Dynamic<double> v) { return x * v; });
  for (const int64_t size : {3, 4, 5}) {
    const auto x = at::randn({size});
    for (const double v : {0.1, 0.2}) EXPECT_TRUE(same_bits(step(x, dynamic(v)), x * v));
  }
  EXPECT_EQ(step.report().programs.size(), 3U);
}

TEST(Dynamic, Kinds) {
  static_assert(std::is_convertible_v<Dynamic<double>, at::Scalar>);
  static_assert(!std::is_convertible_v<Dynamic<double>, at::Tensor>);
  static_assert(!std::is_convertible_v<Dynamic<double>, double>);
  static_assert(std::is_same_v<decltype(1 - dynamic(2)), Dynamic<int64_t>>);
  static_assert(std::is_same_v<decltype(1 - dynamic(2.0F)), Dynamic<double>>);
  static_assert(DynamicNumber<uint32_t> && !DynamicNumber<uint64_t>);
}

}  // namespace dynamic_test
}  // namespace antegrad::testing
