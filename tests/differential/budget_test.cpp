// Memory budgets on real runs: gradients to the bit, peaks within what was asked for.

#include <ATen/ATen.h>
#include <antegrad/antegrad.h>
#include <antegrad/memory.h>
#include <gtest/gtest.h>
#include <torch/nn.h>
#include <torch/utils.h>

#include <functional>
#include <memory>

#include "common/measure.h"
#include "common/models.h"
#include "support/bits.h"

namespace antegrad::testing {
namespace {

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
    auto m = examples::measure_memory([&] { return function(subject_.x, subject_.y); });
    if (getenv("DBG2")) {
      size_t top = 0;
      for (size_t i = 0; i < m.timeline.size(); ++i) if (m.timeline[i].live_bytes == m.peak_bytes) { top = i; break; }
      for (size_t i = top > 12 ? top - 12 : 0; i < top + 6 && i < m.timeline.size(); ++i) std::printf("  %zu live %ld %+ld%s\n", i, (long)m.timeline[i].live_bytes, (long)(m.timeline[i].live_bytes - (i ? m.timeline[i-1].live_bytes : 0)), i == top ? " TOP" : "");
    }
    return m.peak_bytes;
  }

  auto compiled(const Options& options) const {
    return compile(subject_.module, subject_.loss, Options(options).with_verify_graphs(true));
  }

  Subject subject_;
};

TEST_P(Budget, HoldsFromTheSmallestToTheLargest) {
  const auto wanted = step(subject_.loss);
  double before_time = -1;
  int64_t before_peak = 0;
  for (int i = 12; i >= 0; --i) {
    auto function = compiled(Options().with_memory_share(i / 12.0));
    const Loss call = [&](at::Tensor a, at::Tensor b) { return function(a, b); };
    EXPECT_TRUE(same_bits(wanted, step(call))) << i;
    EXPECT_TRUE(same_bits(wanted, step(call))) << i;
    const auto measured = static_cast<double>(peak(call));
    const auto report = function.report();
    ASSERT_EQ(report.eager_calls, 0);
    const auto& program = report.programs.at(0);
    const auto budget = static_cast<double>(program.memory_budget_bytes);
    const auto predicted = static_cast<double>(program.predicted_peak_bytes);
    std::printf(
        "%s %2d: budget %9.0f predicted %9.0f measured %9.0f (%.3f of budget, prediction %.3f) "
        "share %.4f plan %.0f ms\n",
        GetParam().name.c_str(), i, budget, predicted, measured, measured / budget,
        predicted / measured, program.recompute_share, program.planning_ms);
    EXPECT_LE(measured, 1.02 * budget) << i;
    EXPECT_NEAR(predicted, measured, 0.05 * measured) << i;
    EXPECT_GE(program.recompute_share, before_time);
    before_time = program.recompute_share;
    before_peak = program.predicted_peak_bytes;
  }
  (void)before_peak;
}

INSTANTIATE_TEST_SUITE_P(Models, Budget,
                         ::testing::Values(Case{"gpt", gpt}, Case{"mlp", mlp}, Case{"cnn", cnn},
                                           Case{"residual", residual}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace antegrad::testing
