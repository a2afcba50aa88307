// ag::dynamic: numbers that are inputs of a program.

#include <ATen/ATen.h>
#include <torch/nn/modules/linear.h>

#include <limits>

#include "support/parity.h"

namespace antegrad::testing {
namespace dynamic_test {

constexpr double kValues[] = {0.1, -3.0, 1e-30, 1e30, 0.0, -0.0, 1.0 / 3.0};

template <class T>
class DynamicOf : public ::testing::Test {};
struct F32 {
  static constexpr auto dtype = at::kFloat;
};
struct F64 {
  static constexpr auto dtype = at::kDouble;
};
struct Bf16 {
  static constexpr auto dtype = at::kBFloat16;
};
using Dtypes = ::testing::Types<F32, F64, Bf16>;
TYPED_TEST_SUITE(DynamicOf, Dtypes);

// Expects one program for all values, and the same bits, gradients included, as eager with plain
// numbers.
template <class WithTensor, class WithNumber>
void expect_as_number(at::ScalarType dtype, WithTensor with_tensor, WithNumber with_number) {
  auto step = antegrad::compile(with_tensor, Options().with_verify_graphs(true));
  const auto x = at::randn({5, 7}).to(dtype);
  for (const double value : kValues) {
    auto a = x.clone().set_requires_grad(true);
    auto b = x.clone().set_requires_grad(true);
    const auto expected = with_number(a, value);
    const auto found = step(b, antegrad::dynamic(value));
    EXPECT_TRUE(same_bits(expected, found)) << value;
    const auto tangent = at::randn_like(expected);
    expected.backward(tangent);
    found.backward(tangent);
    EXPECT_TRUE(same_bits(a.grad(), b.grad())) << value;
  }
  EXPECT_EQ(step.report().programs.size(), 1U);
  EXPECT_EQ(step.report().eager_calls, 0);
}

TYPED_TEST(DynamicOf, Mul) {
  expect_as_number(
      TypeParam::dtype, [](const at::Tensor& x, Dynamic<double> v) { return x * v; },
      [](const at::Tensor& x, double v) { return x * v; });
}
TYPED_TEST(DynamicOf, Add) {
  expect_as_number(
      TypeParam::dtype, [](const at::Tensor& x, const at::Tensor& v) { return v + x; },
      [](const at::Tensor& x, double v) { return v + x; });
}
TYPED_TEST(DynamicOf, Div) {
  expect_as_number(
      TypeParam::dtype, [](const at::Tensor& x, Dynamic<double> v) { return x / v; },
      [](const at::Tensor& x, double v) { return x / v; });
}

TEST(Dynamic, IntegersAndBools) {
  auto step = antegrad::compile([](const at::Tensor& x, Dynamic<int> n, Dynamic<bool> on) {
    return (x * n).masked_fill(on.tensor().logical_not(), 0);
  });
  const auto x = at::randn({4});
  for (int n = -2; n < 3; ++n) {
    EXPECT_TRUE(same_bits(step(x, dynamic(n), dynamic(true)), x * n));
    EXPECT_TRUE(same_bits(step(x, dynamic(n), dynamic(false)),
                          (x * n).masked_fill(at::ones({}, at::kBool), 0)));
  }
  EXPECT_EQ(step.report().programs.size(), 1U);
}

TEST(Dynamic, WorksInEagerCodeAsInsideACapture) {
  const auto fn = [](const at::Tensor& x, const Dynamic<double>& rate) {
    return std::pair{x.mul(rate), x.to(at::kLong) * rate};
  };
  auto step = antegrad::compile(fn);
  const auto x = at::randn({4});
  const auto eager = fn(x, dynamic(0.3));
  const auto found = step(x, dynamic(0.3));
  EXPECT_TRUE(same_bits(eager.first, found.first));
  EXPECT_TRUE(same_bits(eager.second, found.second));
  EXPECT_EQ(found.second.scalar_type(), at::kDouble);  // as documented
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
  call(4, 5, 0.25);
  EXPECT_EQ(step.report().programs.size(), 1U);
}

TEST(Dynamic, ItsValueIsNotKnownInside) {
  auto step = antegrad::compile([](const at::Tensor& x, Dynamic<double> v) {
    return v.tensor().template item<double>() > 0 ? x : -x;
  });
  EXPECT_THROW(step(at::randn({3}), dynamic(1.0)), DataDependentError);
}

TEST(Dynamic, TheAuditDoesNotMindItsValue) {
  auto step = antegrad::compile([](const at::Tensor& x, Dynamic<double> v) { return x * v; },
                                Options().with_audit(Audit::every));
  const auto x = at::randn({3});
  for (const double value : kValues) EXPECT_TRUE(same_bits(step(x, dynamic(value)), x * value));
  EXPECT_EQ(step.report().audits, 6);
}

TEST(Dynamic, IsNoScalarArgument) {
  static_assert(!std::is_convertible_v<Dynamic<double>, at::Scalar>);
  static_assert(std::is_convertible_v<Dynamic<double>, at::Tensor>);
  static_assert(DynamicNumber<uint32_t> && !DynamicNumber<uint64_t>);
}

}  // namespace dynamic_test
}  // namespace antegrad::testing
