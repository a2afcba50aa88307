// What a callable asks of data and gets an answer to: torch::equal.

#include <ATen/ATen.h>

#include "support/parity.h"

namespace antegrad::testing {
namespace {

at::Tensor asks(const at::Tensor& a, const at::Tensor& b) {
  return a.equal(b) ? a.sin() * 2 : a + b.cos();
}

TEST(Questions, EachAnswerHasAProgram) {
  const auto a = at::randn({2, 3}), b = at::randn({2, 3});
  auto step = antegrad::compile(&asks);
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(same_bits(step(a, b), asks(a, b)));
    EXPECT_TRUE(same_bits(step(a, a.clone()), asks(a, a.clone())));
  }
  const auto report = step.report();
  EXPECT_EQ(report.programs.size(), 2U);
  EXPECT_EQ(report.eager_calls, 0);
}

TEST(Questions, TheFirstAnswerMayBeEither) {
  const auto a = at::randn({2, 3}), b = at::randn({2, 3});
  auto step = antegrad::compile(&asks);
  EXPECT_TRUE(same_bits(step(a, a.clone()), asks(a, a.clone())));
  EXPECT_TRUE(same_bits(step(a, b), asks(a, b)));
  EXPECT_EQ(step.report().eager_calls, 0);
}

// Known without looking at the data.
TEST(Questions, TensorsOfOtherSizesOrWithoutElementsOrTheSameAskNothing) {
  const auto a = at::randn({2, 3}), b = at::randn({3, 2}), none = at::empty({0, 3});
  auto step = antegrad::compile(&asks);
  EXPECT_THROW(step(a, b), c10::Error);  // of the sum, as in eager
  EXPECT_TRUE(same_bits(step(none, none.clone()), asks(none, none)));
  EXPECT_TRUE(same_bits(step(a, a), asks(a, a)));
  EXPECT_EQ(step.report().programs.size(), 2U);
  EXPECT_EQ(step.report().eager_calls, 0);
}

TEST(Questions, SeveralInARowWithGradients) {
  const auto fn = [](const at::Tensor& a, const at::Tensor& b, const at::Tensor& c) {
    auto y = a * b;
    if (a.equal(b)) y = y.exp();
    if (b.equal(c)) y = y + c * 3;
    return y.sum();
  };
  auto step = antegrad::compile(fn);
  const auto x = at::randn({4}), z = at::randn({4});
  for (int way = 0; way < 4; ++way) {
    const auto b = (way % 2 == 0 ? x : z).clone();
    const auto c = (way / 2 == 0 ? b : x + 1).clone();
    auto eager = x.clone().set_requires_grad(true), compiled = x.clone().set_requires_grad(true);
    const auto expected = fn(eager, b, c), found = step(compiled, b, c);
    EXPECT_TRUE(same_bits(expected, found));
    expected.backward();
    found.backward();
    EXPECT_TRUE(same_bits(eager.grad(), compiled.grad()));
  }
  EXPECT_EQ(step.report().programs.size(), 4U);
  EXPECT_EQ(step.report().eager_calls, 0);
}

}  // namespace
}  // namespace antegrad::testing
