// Every model of examples and benchmarks: with eager forward, compiled forward, and one half of the
// batch each way. Gradients are eager's, and so is the peak.

#include <antegrad/antegrad.h>
#include <antegrad/memory.h>

#include <algorithm>
#include <memory>
#include <string>

#include "common/lstm.h"
#include "common/models.h"
#include "common/resnet50.h"
#include "common/varied.h"
#include "scenario.h"
#include "support/long_tests.h"

namespace antegrad::testing {
namespace every_model_test {

struct Subject {
  List parameters;
  ListFunction eager, compiled;  // of a batch, the loss
  List first, second;            // two batches
  std::function<int64_t()> eager_calls;
};
using MakeSubject = Subject (*)();

template <class Model, class Loss>
Subject subject_of(Model model, List first, List second, Loss loss) {
  const auto call = [module = model.ptr(), loss](const List& batch) {
    return loss(*module, batch);
  };
  auto made = compile(model, call, exact_backward());
  const auto step = std::make_shared<decltype(made)>(std::move(made));
  return {model->parameters(),
          [call](const List& batch) -> List { return {call(batch)}; },
          [step](const List& batch) -> List { return {(*step)(batch)}; },
          std::move(first),
          std::move(second),
          [step] { return step->report().eager_calls; }};
}

/// Of models whose loss takes inputs and targets.
template <class Model>
Subject of_pairs(Model model, const std::function<List()>& batch) {
  return subject_of(model, batch(), batch(),
                    [](auto& module, const List& b) { return module.loss(b[0], b[1]); });
}
template <class Model>
Subject of_batches(Model model, const std::function<List()>& batch) {
  return subject_of(model, batch(), batch(),
                    [](auto& module, const List& b) { return module.loss(b); });
}

struct Row {
  const char* name;
  MakeSubject make;
  bool is_long = false;
};

const Row kModels[] = {
    {"Gpt",
     [] {
       const examples::GptConfig config{
           .vocabulary = 64, .layers = 2, .width = 64, .heads = 2, .context = 32, .dropout = 0.1};
       return of_pairs(examples::Gpt(config), [] {
         return List{at::randint(64, {4, 32}), at::randint(64, {4, 32})};
       });
     }},
    {"Mlp",
     [] {
       return of_pairs(examples::Mlp(examples::MlpConfig{.layers = 4, .width = 96, .dropout = 0.2}),
                       [] {
                         return List{at::randn({128, 96}), at::randn({128, 96})};
                       });
     }},
    {"Cnn",
     [] {
       return of_pairs(examples::Cnn(examples::CnnConfig{.channels = {3, 8, 16}, .image = 16}), [] {
         return List{at::randn({8, 3, 16, 16}), at::randint(10, {8})};
       });
     }},
    {"Lstm",
     [] {
       return of_pairs(bench::Lstm(bench::LstmConfig{.vocabulary = 32, .width = 48, .steps = 6}),
                       [] {
                         return List{at::randint(32, {8, 6}), at::randint(32, {8, 6})};
                       });
     }},
    {"Gnn",
     [] { return of_batches(bench::Gnn(), [] { return bench::GnnImpl::batch(100, 300); }); }},
    {"Classifier",
     [] {
       return of_batches(bench::Classifier(), [] { return bench::ClassifierImpl::batch(4, 16); });
     },
     true},
    {"Boxes",
     [] { return of_batches(bench::Boxes(), [] { return bench::BoxesImpl::batch(2, 32); }); },
     true},
    {"ResNet50",
     [] {
       return of_pairs(bench::ResNet50(), [] {
         return List{at::randn({2, 3, 32, 32}), at::randint(1000, {2})};
       });
     },
     true},
};

/// `first` and `compiled`: of the first batch alone. The half that is compiled is called last: its
/// gradients are added up first, as those of its nodes are in eager mode.
enum class Forward { eager, half, first, compiled };

at::Tensor loss_of(const Subject& subject, Forward forward) {
  const auto& [parameters, eager, compiled, first, second, calls] = subject;
  if (forward == Forward::compiled) return compiled(first)[0];
  if (forward == Forward::first) return eager(first)[0];
  const auto loss = eager(first)[0];
  return loss + (forward == Forward::half ? compiled : eager)(second)[0];
}

void clear(const Subject& subject) {
  for (const auto& parameter : subject.parameters) parameter.mutable_grad() = at::Tensor();
}

/// Losses and gradients: the first, and sums with more.
Notes trained(const Subject& subject, Forward forward) {
  Notes notes;
  at::manual_seed(7);
  clear(subject);
  for (int pass = 0; pass < 2; ++pass) {
    const auto loss = loss_of(subject, forward);
    loss.backward();
    notes.add("loss", loss);
    for (const auto& parameter : subject.parameters) notes.add("gradient", parameter.grad());
  }
  clear(subject);
  return notes;
}

class EveryModel : public ::testing::TestWithParam<Row> {
 protected:
  void SetUp() override {
    if (GetParam().is_long && !long_tests()) GTEST_SKIP() << "in the long form";
    at::manual_seed(3);
  }
};

TEST_P(EveryModel, HasEagersGradientsWithEachForward) {
  const auto subject = GetParam().make();
  const auto both = trained(subject, Forward::eager), first = trained(subject, Forward::first);
  CompiledBackward scope(exact_backward());
  for (const auto forward : {Forward::eager, Forward::half, Forward::first, Forward::compiled}) {
    SCOPED_TRACE(static_cast<int>(forward));
    const bool of_both = forward == Forward::eager || forward == Forward::half;
    expect_same_notes(trained(subject, forward), of_both ? both : first);
  }
  EXPECT_EQ(subject.eager_calls(), 0);
  const auto report = scope.report();
  EXPECT_FALSE(report.regions.empty()) << report;
  EXPECT_TRUE(report.left_to_libtorch.empty()) << report;
}

/// Of a pass: with gradients that are there, or without.
int64_t peak_of(const Subject& subject, bool accumulates) {
  clear(subject);
  for (int pass = 0; pass < (accumulates ? 1 : 0); ++pass) {
    subject.eager(subject.first)[0].backward();
  }
  const MemoryMeter meter;
  subject.eager(subject.second)[0].backward();
  return meter.peak_bytes();
}

// Beside what the engine takes, a little: kernels add columns by thread.
TEST_P(EveryModel, TakesNoMoreMemoryThanTheEngine) {
  constexpr int64_t kSpareBytes = 1 << 16;
  const auto subject = GetParam().make();
  for (const bool accumulates : {false, true}) {
    SCOPED_TRACE(accumulates ? "with gradients" : "without gradients");
    const auto eager = peak_of(subject, accumulates);
    const CompiledBackward scope(exact_backward());
    peak_of(subject, accumulates);
    EXPECT_LE(peak_of(subject, accumulates), eager + kSpareBytes);
  }
  clear(subject);
}

INSTANTIATE_TEST_SUITE_P(All, EveryModel, ::testing::ValuesIn(kModels),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace every_model_test
}  // namespace antegrad::testing
