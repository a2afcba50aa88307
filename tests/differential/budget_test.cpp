// Memory budgets in real runs: gradients equal bit for bit, peaks within the budget.

#include <ATen/ATen.h>
#include <antegrad/antegrad.h>
#include <antegrad/memory.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn.h>
#include <torch/utils.h>

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>

#include "common/measure.h"
#include "common/models.h"
#include "support/bits.h"
#include "support/silent_memory.h"

namespace antegrad::testing {
namespace budget_test {

using examples::clear_gradients;

using Loss = std::function<at::Tensor(at::Tensor, at::Tensor)>;

struct Subject {
  std::shared_ptr<torch::nn::Module> module;
  Loss loss;
  at::Tensor x, y;
};

Subject gpt() {
  const examples::GptConfig config{
      .vocabulary = 512, .layers = 4, .width = 128, .heads = 4, .context = 128, .dropout = 0.1};
  examples::Gpt model(config);
  const auto tokens = at::randint(config.vocabulary, {4, config.context});
  return {model.ptr(), [model](at::Tensor a, at::Tensor b) mutable { return model->loss(a, b); },
          tokens, tokens.roll(-1, 1).contiguous()};
}

Subject mlp() {
  const examples::MlpConfig config{.layers = 8, .width = 128, .dropout = 0.2};
  examples::Mlp model(config);
  return {model.ptr(), [model](at::Tensor a, at::Tensor b) mutable { return model->loss(a, b); },
          at::randn({1024, config.width}), at::randn({1024, config.width})};
}

Subject cnn() {
  examples::Cnn model(
      examples::CnnConfig{.channels = {3, 16, 32}, .image = 32, .classes = 10, .dropout = 0.1});
  return {model.ptr(), [model](at::Tensor a, at::Tensor b) mutable { return model->loss(a, b); },
          at::randn({16, 3, 32, 32}), at::randint(10, {16}, at::kLong)};
}

Subject residual() {
  torch::nn::ModuleList blocks;
  for (int i = 0; i < 12; ++i) {
    blocks->push_back(torch::nn::Sequential(torch::nn::LayerNorm(torch::nn::LayerNormOptions({64})),
                                            torch::nn::Linear(64, 256), torch::nn::SiLU(),
                                            torch::nn::Linear(256, 64)));
  }
  return {blocks.ptr(),
          [blocks](at::Tensor a, at::Tensor b) mutable {
            for (const auto& block : *blocks)
              a = a + block->as<torch::nn::Sequential>()->forward(a);
            return (a - b).square().mean();
          },
          at::randn({512, 64}), at::randn({512, 64})};
}

struct Case {
  std::string name;
  std::function<Subject()> make;
};

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

std::vector<at::Tensor> gradients(const torch::nn::Module& module) {
  std::vector<at::Tensor> all;
  for (const auto& parameter : module.parameters()) all.push_back(parameter.grad().clone());
  return all;
}

class Budget : public ::testing::TestWithParam<Case> {
 protected:
  Budget() {
    torch::manual_seed(5);
    subject_ = GetParam().make();
  }

  // One step from a fixed state of the generator.
  std::vector<at::Tensor> step(const Loss& function) const {
    clear_gradients(*subject_.module);
    torch::manual_seed(11);
    function(subject_.x, subject_.y).backward();
    return gradients(*subject_.module);
  }

  int64_t peak(const Loss& function) const {
    clear_gradients(*subject_.module);
    torch::manual_seed(11);
    return examples::measure_memory([&] { return function(subject_.x, subject_.y); }).peak_bytes;
  }

  auto compiled(const Options& options, BudgetProfile profile = BudgetProfile::off) const {
    return compile(subject_.module, subject_.loss,
                   Options(options).with_verify_graphs(true).with_budget_profile(profile));
  }

  Subject subject_;
};

TEST_P(Budget, HoldsFromTheSmallestToTheLargest) {
  const auto wanted = step(subject_.loss);
  double share_above = 0;
  int64_t peak_above = std::numeric_limits<int64_t>::max();
  for (int i = 12; i >= 0; --i) {
    SCOPED_TRACE(i);
    auto function = compiled(Options().with_memory_share(i / 12.0));
    const Loss call = [&](at::Tensor a, at::Tensor b) { return function(a, b); };
    EXPECT_TRUE(same_bits(wanted, step(call)));
    EXPECT_TRUE(same_bits(wanted, step(call)));
    const auto measured = static_cast<double>(peak(call));
    const auto report = function.report();
    ASSERT_EQ(report.eager_calls, 0);
    const auto& program = report.programs.at(0);
    EXPECT_LE(measured, 1.02 * static_cast<double>(program.memory_budget_bytes));
    EXPECT_NEAR(static_cast<double>(program.predicted_peak_bytes), measured, 0.05 * measured);
    EXPECT_LE(program.predicted_peak_bytes, peak_above);
    EXPECT_GE(program.recompute_share, share_above);
    peak_above = program.predicted_peak_bytes;
    share_above = program.recompute_share;
  }
}

// The first size is planned. Its plans serve the others, and are checked for each.
TEST_P(Budget, HoldsForEachSize) {
  auto function = compiled(Options().with_memory_share(0.3));
  const Loss call = [&](at::Tensor a, at::Tensor b) { return function(a, b); };
  const auto x = subject_.x, y = subject_.y;
  const auto rows = x.size(0);
  for (const auto count : {rows, rows / 2, rows - 1, rows}) {
    SCOPED_TRACE(count);
    subject_.x = x.narrow(0, 0, count).contiguous();
    subject_.y = y.narrow(0, 0, count).contiguous();
    EXPECT_TRUE(same_bits(step(subject_.loss), step(call)));
    const auto measured = static_cast<double>(peak(call));
    const auto report = function.report();
    ASSERT_EQ(report.eager_calls, 0);
    const auto& program = report.programs.back();
    EXPECT_LE(program.predicted_peak_bytes, program.memory_budget_bytes);
    if (count != rows) {
      EXPECT_LE(measured, 1.02 * static_cast<double>(program.memory_budget_bytes));
      EXPECT_TRUE(program.plan_carried_over);
      EXPECT_LT(program.recompute_share, 1.5 * report.programs[0].recompute_share);
    }
  }
  EXPECT_EQ(function.report().programs.size(), 3u);
}

// A budget that no plan of other sizes keeps is planned anew, and refused if there is no plan.
TEST_P(Budget, IsPlannedAnewWhereOtherPlansDoNotServe) {
  const auto smallest = [&](const at::Tensor& a, const at::Tensor& b) {
    auto function = compiled(Options().with_memory_share(0));
    function(a, b);
    return function.report().programs.at(0).smallest_budget_bytes;
  };
  const auto half = subject_.x.size(0) / 2;
  const auto x = subject_.x.narrow(0, 0, half).contiguous();
  const auto y = subject_.y.narrow(0, 0, half).contiguous();
  const auto budget = smallest(x, y) * 5 / 4;
  auto function = compiled(Options().with_memory_budget(budget));
  function(x, y);
  const auto needed = smallest(subject_.x, subject_.y);
  if (needed <= budget) return;
  EXPECT_THROW(function(subject_.x, subject_.y), BudgetError);
  function(x, y);
  EXPECT_EQ(function.report().programs.size(), 1u);
  EXPECT_EQ(function.report().eager_calls, 0);
}

// A plan made for one size may be smaller than what the search finds for another.
TEST_P(Budget, ASmallestPlanIsFoundForEachSizeAlsoWithKernels) {
  auto function = compiled(Options().with_memory_share(0).with_lowering(Lowering::exact));
  const auto rows = subject_.x.size(0);
  for (auto count = rows; count > 0 && count > rows - 4; --count) {
    const auto x = subject_.x.narrow(0, 0, count).contiguous();
    const auto y = subject_.y.narrow(0, 0, count).contiguous();
    function(x, y);
  }
  for (const auto& program : function.report().programs) {
    EXPECT_LE(program.predicted_peak_bytes, program.memory_budget_bytes);
    EXPECT_LE(program.smallest_budget_bytes, program.memory_budget_bytes);
  }
  EXPECT_EQ(function.report().eager_calls, 0);
}

TEST_P(Budget, HoldsByTimesOfThisMachineToo) {
  const auto wanted = step(subject_.loss);
  for (const auto profile : {BudgetProfile::calibrated, BudgetProfile::measured}) {
    auto function = compiled(Options().with_memory_share(0.5), profile);
    const Loss call = [&](at::Tensor a, at::Tensor b) { return function(a, b); };
    EXPECT_TRUE(same_bits(wanted, step(call)));
    const auto report = function.report();
    ASSERT_EQ(report.eager_calls, 0);
    EXPECT_LE(static_cast<double>(peak(call)),
              1.02 * static_cast<double>(report.programs.at(0).memory_budget_bytes));
  }
}

// Budgets are those without kernels. Plans that count on kernels keep them and recompute no more,
// but for shares being those of a shorter step.
TEST_P(Budget, HoldsWithKernels) {
  const auto wanted = step(subject_.loss);
  for (const double share : {1.0, 0.6, 0.3, 0.0}) {
    SCOPED_TRACE(share);
    auto without = compiled(Options().with_memory_share(share));
    without(subject_.x, subject_.y);
    const auto other = without.report().programs.at(0);
    auto function = compiled(Options()
                                 .with_memory_budget(other.memory_budget_bytes)
                                 .with_lowering(Lowering::exact)
                                 .with_keep_slow_kernels(true));
    const Loss call = [&](at::Tensor a, at::Tensor b) { return function(a, b); };
    EXPECT_TRUE(same_bits(wanted, step(call)));
    EXPECT_TRUE(same_bits(wanted, step(call)));
    const auto measured = static_cast<double>(peak(call));
    const auto report = function.report();
    ASSERT_EQ(report.eager_calls, 0);
    const auto& program = report.programs.at(0);
    EXPECT_GE(program.generated_kernels.size(), 1U) << report;
    EXPECT_LE(program.predicted_peak_bytes, program.memory_budget_bytes);
    EXPECT_LE(measured, 1.02 * static_cast<double>(program.memory_budget_bytes));
    EXPECT_LE(program.recompute_share, 1.05 * other.recompute_share);
  }
}

// The search that counts on some kernels may find no plan for a budget for which the one that
// counts on none has a plan.
TEST(BudgetWithKernels, IsRefusedOnlyIfNoSearchFindsAPlan) {
  const auto fn = [](const at::Tensor& x) {
    const auto y = at::cumprod(x.clamp(-1.5, 1.5), 2);
    return at::scatter(x, 0, at::argsort(y, int64_t{0}), y);
  };
  for (const double share : {0.0, 0.25, 0.5, 0.75, 1.0}) {
    auto step = compile(fn, Options()
                                .with_memory_share(share)
                                .with_budget_profile(BudgetProfile::off)
                                .with_lowering(Lowering::exact)
                                .with_keep_slow_kernels(true));
    const auto x = at::randn({4, 3, 2}).requires_grad_();
    EXPECT_TRUE(same_bits({step(x).detach()}, {fn(x).detach()})) << share;
    EXPECT_EQ(step.report().eager_calls, 0) << share;
  }
}

// AOTAutograd's ratio of saved bytes, with all partitioners that support it.
TEST_P(Budget, ARatioSavesLess) {
  const auto wanted = step(subject_.loss);
  for (const auto estimator :
       {RuntimeEstimator::flops, RuntimeEstimator::testing, RuntimeEstimator::profile}) {
    for (const auto solver : {BudgetSolver::dp, BudgetSolver::greedy}) {
      int64_t above = std::numeric_limits<int64_t>::max();
      for (const double ratio : {1.0, 0.5, 0.0}) {
        SCOPED_TRACE(ratio);
        auto function = compiled(Options().with_activation_memory_budget(ratio, solver, estimator));
        const Loss call = [&](at::Tensor a, at::Tensor b) { return function(a, b); };
        EXPECT_TRUE(same_bits(wanted, step(call)));
        const auto report = function.report();
        ASSERT_EQ(report.eager_calls, 0);
        EXPECT_LT(report.programs.at(0).saved_bytes, above);
        above = report.programs.at(0).saved_bytes;
      }
    }
  }
}

TEST_P(Budget, WithinHalfTheWayIsLessThanEager) {
  auto function = compiled(Options().with_memory_share(0.5));
  const Loss call = [&](at::Tensor a, at::Tensor b) { return function(a, b); };
  step(call);
  EXPECT_LT(peak(call), peak(subject_.loss));
}

TEST_P(Budget, NamesTheSmallestWhenNothingFits) {
  auto function = compiled(Options().with_memory_budget(1_KiB));
  int64_t smallest = 0;
  try {
    function(subject_.x, subject_.y);
    FAIL() << "a budget of 1 KiB held";
  } catch (const BudgetError& error) {
    smallest = error.smallest_bytes();
    EXPECT_NE(std::string(error.what()).find(std::to_string(smallest)), std::string::npos);
  }
  for (const auto& parameter : subject_.module->parameters())
    EXPECT_FALSE(parameter.grad().defined());
  auto fitting = compiled(Options().with_memory_budget(smallest));
  const Loss call = [&](at::Tensor a, at::Tensor b) { return fitting(a, b); };
  EXPECT_TRUE(same_bits(step(subject_.loss), step(call)));
  EXPECT_LE(static_cast<double>(peak(call)), 1.02 * static_cast<double>(smallest));
  // Kernels may keep a smaller one, but no plan without them does.
  const auto smaller = Options().with_memory_budget(smallest - 1);
  auto too_small = compiled(Options(smaller).with_lowering(Lowering::off));
  EXPECT_THROW(too_small(subject_.x, subject_.y), BudgetError);
  auto with_kernels = compiled(smaller);
  const Loss kept = [&](at::Tensor a, at::Tensor b) { return with_kernels(a, b); };
  try {
    EXPECT_TRUE(same_bits(step(subject_.loss), step(kept)));
    EXPECT_LE(static_cast<double>(peak(kept)), 1.02 * static_cast<double>(smallest - 1));
  } catch (const BudgetError& error) {
    EXPECT_GE(error.smallest_bytes(), smallest);
  }
}

// A retained backward, one for some of the gradients, and backward passes in another order.
TEST_P(Budget, OtherBackwardsGiveTheSameBits) {
  auto function = compiled(Options().with_memory_share(0));
  const auto parameters = subject_.module->parameters();
  const auto gradients_twice = [&](const Loss& loss) {
    torch::manual_seed(3);
    const auto first = loss(subject_.x, subject_.y), second = loss(subject_.x, subject_.y);
    auto all = torch::autograd::grad({first}, parameters, {}, /*retain_graph=*/true);
    for (const auto& g : torch::autograd::grad({first}, parameters)) all.push_back(g);
    all.push_back(torch::autograd::grad({second}, {parameters.front()})[0]);
    return all;
  };
  const Loss call = [&](at::Tensor a, at::Tensor b) { return function(a, b); };
  EXPECT_TRUE(same_bits(gradients_twice(subject_.loss), gradients_twice(call)));
  EXPECT_EQ(function.report().eager_calls, 0);
}

TEST(BudgetOptions, RefuseWhatIsNoBudget) {
  const auto body = [](const at::Tensor& x) { return x.sum(); };
  EXPECT_THROW(compile(body, Options().with_memory_budget(0)), OptionError);
  EXPECT_THROW(compile(body, Options().with_memory_budget(-1_MiB)), OptionError);
  EXPECT_THROW(compile(body, Options().with_memory_share(1.5)), OptionError);
  EXPECT_THROW(compile(body, Options().with_activation_memory_budget(-0.5)), OptionError);
  EXPECT_THROW(compile(body, Options().with_activation_memory_budget(std::nan(""))), OptionError);
}

// Kernels take memory that such an allocator does not show, so the step would exceed the budget.
TEST(BudgetOptions, AByteBudgetNeedsAnAllocatorThatReports) {
  const auto x = at::randn({64, 64}).requires_grad_();
  const auto body = [](const at::Tensor& in) { return in.exp().logsumexp(1).sum(); };
  const SilentMemory silent;
  auto function = compile(body, Options().with_memory_budget(1_MiB));
  try {
    function(x);
    ADD_FAILURE() << "no error";
  } catch (const OptionError& error) {
    const std::string text = error.what();
    for (const char* part : {"allocator of cpu", "backend:native", "memory_share"}) {
      EXPECT_NE(text.find(part), std::string::npos) << text;
    }
  }
  EXPECT_FALSE(x.grad().defined());
  auto shared = compile(body, Options().with_memory_share(0));
  EXPECT_TRUE(same_bits(body(x).detach(), shared(x).detach()));
}

// Without gradients, nothing is saved for a backward, so there is no budget to miss.
TEST(BudgetOptions, SayNothingWithoutABackward) {
  auto function =
      compile([](const at::Tensor& x) { return x.exp().sum(); }, Options().with_memory_budget(1));
  const auto x = at::randn({64, 64});
  EXPECT_TRUE(same_bits(x.exp().sum(), function(x)));
}

INSTANTIATE_TEST_SUITE_P(Models, Budget,
                         ::testing::Values(Case{"gpt", gpt}, Case{"mlp", mlp}, Case{"cnn", cnn},
                                           Case{"residual", residual}),
                         [](const auto& info) { return info.param.name; });

}  // namespace budget_test
}  // namespace antegrad::testing
