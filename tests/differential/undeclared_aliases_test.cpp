// Custom operators whose results share memory with an argument or another result, although their
// schemas declare no alias.

#include <ATen/ATen.h>
#include <antegrad/antegrad.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include "support/bits.h"
#include "support/custom_ops.h"

namespace antegrad::testing {
namespace undeclared_aliases_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using List = std::vector<at::Tensor>;

at::Tensor call(const char* name, const at::Tensor& x) {
  return call_op<at::Tensor(const at::Tensor&)>(name, x);
}

at::Tensor add_and_return(const at::Tensor& x, at::Tensor total) {
  return call_op<at::Tensor(const at::Tensor&, at::Tensor&)>("add_and_return", x, total);
}

/// The argument dies in sin(), which could overwrite it and with it the operator's result.
List uses_both(const at::Tensor& x) {
  const auto t = x + 1;
  const auto y = call("same", t);
  return {y + t.sin()};
}

List uses_all(const at::Tensor& x) {
  const auto [y, more] = call_op<std::tuple<at::Tensor, List>(const at::Tensor&)>("twice", x);
  return {more[1] + y.sin(), more[0]};
}

List uses_written(const at::Tensor& x) {
  const auto total = x + 1;
  const auto y = add_and_return(x, total);
  return {y + total.sin()};
}

TEST(UndeclaredAliases, ProgramsUseACopySoThatNumbersAreEagers) {
  const auto x = at::randn({16});
  for (const auto& fn : {uses_both, uses_all, uses_written}) {
    auto step = compile(fn);
    EXPECT_TRUE(same_bits(step(x), fn(x)));
    EXPECT_TRUE(same_bits(step(x), fn(x)));
    EXPECT_EQ(step.report().eager_calls, 0);
  }
}

TEST(UndeclaredAliases, TheCopyHasTheStridesOfTheResult) {
  auto step = compile([](const at::Tensor& x) { return call("repeated", x); });
  const auto x = at::randn({5});
  const auto found = step(x);
  EXPECT_TRUE(same_bits({found}, {call("repeated", x)}));
  EXPECT_EQ(found.strides(), (at::IntArrayRef{0, 1}));
  EXPECT_FALSE(found.is_alias_of(x));
}

TEST(UndeclaredAliases, EachOperatorIsOneWarning) {
  const auto run = [](const Options& options) {
    ::testing::internal::CaptureStderr();
    auto step = compile([](const at::Tensor& x) { return call("warned", x) + 1; }, options);
    for (int i = 0; i < 2; ++i) step(at::randn({3}));
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(run(Options().with_check_custom_op_aliasing(false)), IsEmpty());
  EXPECT_THAT(run({}), AllOf(HasSubstr("agtest::warned"), HasSubstr("the argument 'x'"),
                             HasSubstr("clone()"), HasSubstr("error_on_custom_op_aliasing")));
  EXPECT_THAT(run({}), IsEmpty());
}

template <class Fn>
void expect_error(const Fn& fn, const char* op, const char* with) {
  auto step = compile(fn, Options().with_error_on_custom_op_aliasing(true));
  const auto x = at::randn({4}), before = x.clone();
  try {
    step(x);
    FAIL() << op << ": expected an error";
  } catch (const CaptureError& error) {
    EXPECT_THAT(error.op(), HasSubstr(op));
    EXPECT_THAT(error.what(), AllOf(HasSubstr(op), HasSubstr(with), HasSubstr("clone()")));
  }
  EXPECT_TRUE(same_bits({x}, {before}));
}

TEST(UndeclaredAliases, CanBeErrorsThatNameTheOperatorAndWhatShares) {
  expect_error(uses_both, "agtest::same", "the argument 'x'");
  expect_error(uses_all, "agtest::twice", "another result");
  expect_error(uses_written, "agtest::add_and_return", "an argument that is written");
}

TEST(UndeclaredAliases, AreFoundInTheBackwardToo) {
  struct Sum : torch::autograd::Function<Sum> {
    static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) {
      return x.clone();
    }
    static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                   torch::autograd::variable_list grads) {
      return {call("same", grads[0])};
    }
  };
  const auto x = at::randn({4}).requires_grad_();
  auto step = compile([](const at::Tensor& a) { return Sum::apply(a * 2).sin(); },
                      Options().with_error_on_custom_op_aliasing(true));
  const auto y = step(x).sum();
  EXPECT_THROW(torch::autograd::grad({y}, {x}), CaptureError);
}

TEST(UndeclaredAliases, DeclaredOnesAreNone) {
  auto step = compile(
      [](const at::Tensor& x) {
        auto y = x + 1;
        return call_op<at::Tensor&(at::Tensor&, double)>("scale_", y, 2) * 3;
      },
      Options().with_error_on_custom_op_aliasing(true));
  const auto x = at::randn({4});
  EXPECT_TRUE(same_bits({step(x)}, {(x + 1) * 2 * 3}));
  EXPECT_EQ(step.report().eager_calls, 0);
}

}  // namespace undeclared_aliases_test
}  // namespace antegrad::testing
