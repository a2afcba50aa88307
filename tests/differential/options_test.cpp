// The sources of a compiled callable's options.

#include <ATen/ATen.h>
#include <antegrad/antegrad.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cstdlib>
#include <stdexcept>

#include "support/bits.h"
#include "support/folder.h"

namespace antegrad::testing {
namespace options_test {

at::Tensor body(const at::Tensor& x) { return (x.sin() * 2).relu().sum(); }

/// The number of recomputed nodes.
template <class Step>
size_t recomputed(Step step) {
  step(at::randn({8, 4}).set_requires_grad(true)).backward();
  return step.report().programs.at(0).recomputed.size();
}

TEST(OptionsOfCallables, AreTheDefaultsWhereNoneAreGiven) {
  EXPECT_EQ(recomputed(compile(body)), 0);
  const OptionsPatch patch{"partition=min_cut", "name=patched"};
  EXPECT_GT(recomputed(compile(body)), 0);
  EXPECT_EQ(recomputed(compile(body, Options())), 0);
  EXPECT_EQ(compile(body).report().name, "patched");
}

TEST(OptionsOfCallables, StayAsTheyWereWhenItWasCompiled) {
  auto step = [] {
    const OptionsPatch patch{"partition=min_cut"};
    return compile(body);
  }();
  EXPECT_GT(recomputed(step), 0);
}

// In a separate process, since the environment is read once.
TEST(OptionsOfCallables, WrittenInCodeLeaveDumpsToTheEnvironment) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const TemporaryFolder folder;
  setenv("ANTEGRAD_DUMP", folder.path().c_str(), /*overwrite=*/0);  // the child inherits it
  EXPECT_EXIT(compile(body, Options().with_max_programs(2))(at::ones({2}));
              std::_Exit(0), ::testing::ExitedWithCode(0), "");
  unsetenv("ANTEGRAD_DUMP");
  EXPECT_FALSE(folder.is_empty());
}

TEST(OptionsOfCallables, OutOfRangeAreRefused) {
  EXPECT_THROW(compile(body, Options().with_check_against_eager(-1)), OptionError);
  EXPECT_THROW(compile(body, Options().with_memory_share(-0.5)), OptionError);
}

// A pass need not give the same graph twice, and may be replaced.
TEST(JointCustomPass, RunsOnceForAllBackwardsOfAProgram) {
  int runs = 0;
  register_joint_pass("once", [&runs](std::string text) {
    if (runs++ > 0) throw std::runtime_error("ran twice");
    return text;
  });
  const auto product = [](const at::Tensor& x, const at::Tensor& y) { return x.sin() * y.exp(); };
  auto step = compile(product, Options().with_joint_custom_pass("once"));
  const auto x = at::randn({8}).requires_grad_(), y = at::randn({8}).requires_grad_();
  const auto tangent = at::randn({8});
  const auto result = step(x, y);
  const auto expected = torch::autograd::grad({product(x, y)}, {x, y}, {tangent});
  EXPECT_TRUE(same_bits(torch::autograd::grad({result}, {x}, {tangent}, /*retain_graph=*/true),
                        {expected[0]}));
  EXPECT_TRUE(same_bits(torch::autograd::grad({result}, {x, y}, {tangent}), expected));
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(step.report().eager_calls, 0);
  register_joint_pass("once", [](std::string text) { return text; });  // without `runs`
}

}  // namespace options_test
}  // namespace antegrad::testing
