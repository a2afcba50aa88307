// Training at the level `close` in deterministic mode: which bits depend on the number of threads.

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <antegrad/antegrad.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/models.h"
#include "common/vit.h"
#include "support/bits.h"
#include "training.h"

namespace antegrad::testing {
namespace thread_counts_test {

struct Subject {
  std::string name;
  std::function<std::shared_ptr<torch::nn::Module>()> make;
  std::function<at::Tensor(torch::nn::Module&, const at::Tensor&, const at::Tensor&)> loss;
  std::function<List()> batch;
};

template <class Holder, class Config>
Subject subject(std::string name, Config config, std::function<List()> batch) {
  return {std::move(name), [config] { return Holder(config).ptr(); },
          [](torch::nn::Module& module, const at::Tensor& x, const at::Tensor& y) {
            return module.as<typename Holder::ContainedType>()->loss(x, y);
          },
          std::move(batch)};
}

const std::vector<Subject>& subjects() {
  static const auto* const all = new std::vector<Subject>{
      subject<examples::Gpt>("gpt",
                             examples::GptConfig{.vocabulary = 256,
                                                 .layers = 2,
                                                 .width = 192,
                                                 .heads = 6,
                                                 .context = 128,
                                                 .dropout = 0.1},
                             [] {
                               return List{at::randint(256, {6, 128}), at::randint(256, {6, 128})};
                             }),
      subject<examples::Mlp>("mlp", examples::MlpConfig{.layers = 3, .width = 512},
                             [] {
                               return List{at::randn({600, 512}), at::randn({600, 512})};
                             }),
      subject<examples::Cnn>("cnn", examples::CnnConfig{},
                             [] {
                               return List{at::randn({16, 3, 32, 32}), at::randint(10, {16})};
                             }),
      subject<examples::Vit>("vit", examples::VitConfig{},
                             [] {
                               return List{at::randn({8, 3, 32, 32}), at::randint(10, {8})};
                             }),
  };
  return *all;
}

// The loss and the gradients by name, of one step with so many threads.
List step_of(const Subject& one, int threads, bool compiled) {
  at::set_num_threads(threads);
  at::manual_seed(0);
  const auto model = one.make();
  const auto batch = one.batch();
  const auto eager = [&](const at::Tensor& x, const at::Tensor& y) {
    return one.loss(*model, x, y);
  };
  auto step = compile(model, eager, Options().with_lowering(Lowering::close));
  at::manual_seed(1);
  const at::Tensor loss =
      compiled ? at::Tensor(step(batch[0], batch[1])) : eager(batch[0], batch[1]);
  loss.backward();
  if (compiled) {
    const auto report = step.report();
    EXPECT_EQ(report.eager_calls, 0);
    EXPECT_GE(report.programs.at(0).generated_kernels.size(), 2U) << report;
  }
  List all{loss.detach()};
  for (const auto& parameter : model->parameters()) all.push_back(parameter.grad());
  return all;
}

class DeterministicMode {
 public:
  DeterministicMode() { at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false); }
  ~DeterministicMode() {
    at::globalContext().setDeterministicAlgorithms(false, /*warn_only=*/false);
    at::set_num_threads(threads_);
  }
  DeterministicMode(const DeterministicMode&) = delete;
  DeterministicMode& operator=(const DeterministicMode&) = delete;

 private:
  const int threads_ = at::get_num_threads();
};

class ThreadCounts : public ::testing::TestWithParam<size_t> {};

// Some of libtorch's own calls depend on the number of threads: those of eager mode do, too.
TEST_P(ThreadCounts, ChangeNoBitsThatTheyDoNotChangeInEagerMode) {
  const DeterministicMode mode;
  const Subject& one = subjects()[GetParam()];
  const List eager = step_of(one, 1, false), ours = step_of(one, 1, true);
  size_t same = 0;
  for (const int count : {2, 3, 4}) {
    const List other_eager = step_of(one, count, false), other_ours = step_of(one, count, true);
    for (size_t i = 0; i < ours.size(); ++i) {
      if (!at::equal(other_eager[i], eager[i])) continue;
      EXPECT_TRUE(same_bits(other_ours[i], ours[i])) << count << " threads, result " << i;
      ++same;
    }
  }
  EXPECT_GE(same, ours.size());  // a third of all
}

TEST(ThreadCountsOfAGpt, ChangeNoBit) {
  const DeterministicMode mode;
  const List ours = step_of(subjects().front(), 1, true);
  for (const int count : {2, 3, 4}) {
    EXPECT_TRUE(same_bits(step_of(subjects().front(), count, true), ours)) << count << " threads";
  }
}

INSTANTIATE_TEST_SUITE_P(Models, ThreadCounts, ::testing::Range<size_t>(0, subjects().size()),
                         [](const auto& info) { return subjects()[info.param].name; });

}  // namespace thread_counts_test
}  // namespace antegrad::testing
