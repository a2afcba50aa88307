// Memory budgets combined with hooks on saved tensors: plans that may pack, and plans that must.

#include <ATen/ATen.h>
#include <antegrad/antegrad.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn.h>
#include <torch/utils.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "common/measure.h"
#include "common/models.h"
#include "support/bits.h"
#include "support/saving.h"

namespace antegrad::testing {
namespace packed_plans_test {

using List = std::vector<at::Tensor>;
using Loss = std::function<at::Tensor(at::Tensor, at::Tensor)>;

// Calls of a GPT from one state of the generator.
class PackedPlans : public ::testing::Test {
 protected:
  PackedPlans() {
    torch::manual_seed(5);
    model_ = examples::Gpt(kConfig);
    tokens_ = at::randint(kConfig.vocabulary, {8, kConfig.context});
    targets_ = tokens_.roll(-1, 1).contiguous();
  }

  auto compiled(const Options& options) const {
    return compile(
        model_.ptr(), loss_,
        Options(options).with_verify_graphs(true).with_budget_profile(BudgetProfile::off));
  }

  // The loss, and all gradients.
  template <class Function>
  std::vector<at::Tensor> step(Function&& function) {
    examples::clear_gradients(*model_);
    torch::manual_seed(11);
    const at::Tensor loss = function(tokens_, targets_);
    loss.backward();
    std::vector<at::Tensor> all = {loss.detach()};
    for (const auto& parameter : model_->parameters()) all.push_back(parameter.grad().clone());
    return all;
  }

  template <class Function>
  int64_t peak(Function&& function) {
    examples::clear_gradients(*model_);
    torch::manual_seed(11);
    return examples::measure_memory([&] { return function(tokens_, targets_); }).peak_bytes;
  }

  // Compares the plan of a compiled function with the memory that its step takes.
  template <class Function>
  ProgramReport expect_kept(Function& function) {
    const auto report = function.report();
    EXPECT_EQ(report.eager_calls, 0);
    EXPECT_EQ(report.programs.size(), 1u);
    const auto measured = static_cast<double>(peak(function));
    const auto& program = report.programs.at(0);
    EXPECT_LE(measured, 1.001 * static_cast<double>(program.memory_budget_bytes));
    EXPECT_LE(program.predicted_peak_bytes, program.memory_budget_bytes);
    EXPECT_NEAR(static_cast<double>(program.predicted_peak_bytes), measured, 0.01 * measured);
    return program;
  }

  ProgramReport planned(const Options& options) {
    auto function = compiled(options);
    step(function);
    return function.report().programs.at(0);
  }

  // The gradients of a step, without its loss.
  static List gradients(const List& step) { return {step.begin() + 1, step.end()}; }

  static constexpr examples::GptConfig kConfig{
      .vocabulary = 64, .layers = 4, .width = 128, .heads = 4, .context = 128, .dropout = 0.1};
  examples::Gpt model_{nullptr};
  at::Tensor tokens_, targets_;
  const Loss loss_ = [this](at::Tensor a, at::Tensor b) { return model_->loss(a, b); };
};

struct Allowed {
  Compressor compressor;
  const char* name;
  double error;  // of gradients, relative
};

class OneCompressor : public PackedPlans, public ::testing::WithParamInterface<Allowed> {};

TEST_P(OneCompressor, TakesLessTimeWithinItsError) {
  const auto wanted = step(loss_);
  const auto without = planned(Options().with_memory_share(0));
  auto function = compiled(Options()
                               .with_memory_budget(without.smallest_budget_bytes)
                               .with_budget_compressors({GetParam().compressor}));
  const auto found = step(function);
  const auto program = expect_kept(function);
  EXPECT_LE(program.smallest_budget_bytes, without.smallest_budget_bytes);
  EXPECT_LE(program.recompute_share, without.recompute_share);
  EXPECT_EQ(program.recompute_share < without.recompute_share, !program.hooked.empty());
  EXPECT_TRUE(same_bits({wanted[0]}, {found[0]}));  // the forward is as it was
  EXPECT_LT(relative_error(gradients(wanted), gradients(found)), GetParam().error);
  // Writing files takes longer than recomputing everything.
  EXPECT_EQ(program.hooked.empty(), GetParam().compressor == Compressor::offload_to_host);
  for (const auto& line : program.hooked) {
    EXPECT_NE(line.find(std::string("(") + GetParam().name + ")"), std::string::npos) << line;
  }
}

INSTANTIATE_TEST_SUITE_P(All, OneCompressor,
                         ::testing::Values(Allowed{Compressor::bf16, "bf16", 0.01},
                                           Allowed{Compressor::fp8_e4m3, "fp8_e4m3", 0.1},
                                           Allowed{Compressor::fp8_e5m2, "fp8_e5m2", 0.2},
                                           Allowed{Compressor::int8_rowwise, "int8_rowwise", 0.03},
                                           Allowed{Compressor::offload_to_host, "offload_to_host",
                                                   1e-30}),
                         [](const auto& info) { return std::string(info.param.name); });

// A larger budget never makes the step slower, and nothing is packed if there is room.
TEST_F(PackedPlans, TheLargestBudgetPacksNothing) {
  const auto wanted = step(loss_);
  const auto options =
      Options().with_budget_compressors({Compressor::bf16, Compressor::int8_rowwise});
  double share_above = 0;
  for (int i = 6; i >= 0; --i) {
    SCOPED_TRACE(i);
    auto function = compiled(Options(options).with_memory_share(i / 6.0));
    const auto found = step(function);
    const auto program = expect_kept(function);
    EXPECT_GE(program.recompute_share, share_above);
    share_above = program.recompute_share;
    if (i < 6) continue;
    EXPECT_TRUE(program.hooked.empty());
    EXPECT_TRUE(same_bits(wanted, found));
  }
}

// Values that are packed, recomputed from unpacked values, or both.
TEST_F(PackedPlans, OtherBackwardsUnpackToo) {
  const auto options = Options().with_memory_share(0.2).with_budget_compressors({Compressor::bf16});
  auto function = compiled(options);
  step(function);
  ASSERT_FALSE(function.report().programs.at(0).hooked.empty());
  const auto usual = step(function);
  examples::clear_gradients(*model_);
  torch::manual_seed(11);
  const at::Tensor loss = function(tokens_, targets_);
  const auto parameters = model_->parameters();
  const auto some = torch::autograd::grad({loss}, {parameters[0], parameters[3]}, {},
                                          /*retain_graph=*/true);
  EXPECT_TRUE(same_bits({usual[1], usual[4]}, some));
  const auto all = torch::autograd::grad({loss}, parameters);
  EXPECT_TRUE(same_bits(gradients(usual), all));
}

// The budget counts the bytes that the hooks of a scope save, not the original tensors.
TEST_F(PackedPlans, BudgetsCountPackedBytesOfAScope) {
  const auto without = planned(Options().with_memory_share(1));
  const SavedTensorHooks scope(compress::fp8_e4m3());
  const auto with = planned(Options().with_memory_share(1));
  EXPECT_LT(static_cast<double>(with.eager_peak_bytes),
            0.7 * static_cast<double>(without.eager_peak_bytes));
  auto function = compiled(Options().with_memory_budget(with.eager_peak_bytes));
  step(function);
  const auto program = expect_kept(function);
  EXPECT_EQ(program.hooks, "fp8_e4m3");
  EXPECT_FALSE(program.hooked.empty());
  // Recomputing these values takes less time than packing them.
  EXPECT_LE(program.recompute_share, with.recompute_share);
}

TEST_F(PackedPlans, HooksThatKeepBitsKeepThemUnderEveryBudget) {
  const auto wanted = step(loss_);
  const Hooks bytes([](const at::Tensor& x) { return std::pair(x.clone(), x.scalar_type()); },
                    [](const std::pair<at::Tensor, at::ScalarType>& p) { return p.first.clone(); });
  const SavedTensorHooks scope(bytes);
  for (const double share : {0.0, 0.5, 1.0}) {
    auto function = compiled(Options().with_memory_share(share));
    EXPECT_TRUE(same_bits(wanted, step(function)));
    expect_kept(function);
  }
}

}  // namespace packed_plans_test
}  // namespace antegrad::testing
