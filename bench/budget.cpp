// Training steps within memory budgets: peak memory and time, compared with eager, with eager and a
// checkpoint around every block, and with AOTAutograd's activation_memory_budget. The extra time
// that plans predict, beside what it is; on a GPU only this, and offloading, with larger models in
// bfloat16.

#include <ATen/Parallel.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <antegrad/antegrad.h>
#include <fmt/format.h>
#include <torch/cuda.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/child.h"
#include "common/gpt12.h"
#include "common/gpu_memory.h"
#include "common/harness.h"
#include "common/measure.h"
#include "common/models.h"
#include "common/resnet.h"
#include "common/resnet50.h"

namespace antegrad::bench {
namespace {

using Loss = std::function<at::Tensor(at::Tensor, at::Tensor)>;

/// The limit of a measured peak as a share of its budget, and of the relative error of a predicted
/// peak. Of measured extra time on a GPU, how far it may be from the predicted one, both as shares
/// of a step.
constexpr double kMostOfBudget = 1.02, kPredictionError = 0.05, kExtraError = 0.05;

double mib(int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

/// A model, a batch for it, and how often its steps are timed.
struct Subject {
  std::string name;
  std::shared_ptr<torch::nn::Module> module;
  Loss loss;
  Loss checkpointed;  // the same with a checkpoint around every block
  at::Tensor x, y;
  int rounds = 0;
  int peer_seconds = 0;
  std::vector<std::string> peer_words;  // the model's words on the command line of peers/budget.py
};

/// The peak and the time of a step within one budget.
struct Point {
  double peak_mib = 0, step_ms = 0, recompute_ms = 0;
};

Compiled<Loss> compiled(const Subject& subject, Options options) {
  // No audit: it captures again in some calls, which is not part of a step.
  options.with_name(subject.name).with_audit(Audit::off);
  return compile(subject.module, subject.loss, std::move(options));
}

ProgramReport report_of(const Compiled<Loss>& function) {
  const auto report = function.report();
  AG_CHECK(report.eager_calls == 0, "a compiled call ran eagerly");
  return report.programs.at(0);
}

template <class Function>
void step(const Subject& subject, Function& function) {
  examples::clear_gradients(*subject.module);
  function(subject.x, subject.y).backward();
  if (subject.x.is_cuda()) torch::cuda::synchronize();
}

/// Above what was allocated before the step.
template <class Function>
int64_t peak_bytes(const Subject& subject, Function& function) {
  examples::clear_gradients(*subject.module);
  if (!subject.x.is_cuda()) {
    return examples::measure_memory([&] { return function(subject.x, subject.y); }).peak_bytes;
  }
  return gpu_peak_bytes(subject.x.get_device(), [&] { function(subject.x, subject.y).backward(); });
}

class BudgetBench {
 public:
  BudgetBench(Bench& bench, Subject subject)
      : bench_(bench), subject_(std::move(subject)), plain_(compiled(subject_, Options())) {}

  void run() {
    find_range();
    for (const double share : {0.75, 0.5, 0.35, 0.0}) extra_time(share);
    without_budget();
    if (subject_.x.is_cuda()) return offload();
    const int budgets = bench_.quick() ? 5 : 12;
    for (int i = budgets - 1; i >= 0; --i) {
      within(least_ + (most_ - least_) * i / (budgets - 1));
    }
    sum_up();
    beside_checkpoints();
    beside_reference();
  }

 private:
  void add(const std::string& where, const char* metric, double value, const char* unit,
           std::optional<Peer> peer = {}, std::optional<double> limit = {}) {
    bench_.add({subject_.name + where, metric, value, unit, std::move(peer), limit});
  }

  void without_budget() {
    const auto pair = time_pairs(
        subject_.name, bench_.rounds(subject_.rounds), [&] { step(subject_, plain_); },
        [&] { step(subject_, subject_.loss); });
    eager_peak_mib_ = mib(peak_bytes(subject_, subject_.loss));
    points_.push_back({mib(peak_bytes(subject_, plain_)), pair.first_ms, 0});
    add("", "step_ms", pair.first_ms, "ms", Peer{"eager", pair.second_ms});
    add("", "measured_peak", points_[0].peak_mib, "MiB", Peer{"eager", eager_peak_mib_});
  }

  /// From the smallest feasible budget to the peak without recomputation.
  void find_range() {
    auto function = compiled(subject_, Options().with_memory_share(0));
    function.warmup(subject_.x, subject_.y);
    const auto program = report_of(function);
    planning_ms_ = program.planning_ms;
    least_ = program.smallest_budget_bytes;
    most_ = program.eager_peak_bytes;
    for (int64_t less = 1; less <= 3; ++less) {
      const auto rows = subject_.x.size(0) - less;
      function.warmup(subject_.x.narrow(0, 0, rows), subject_.y.narrow(0, 0, rows));
      planning_other_size_ms_.push_back(function.report().programs.back().planning_ms);
    }
  }

  /// Predicted and measured, with a budget of a share of the peak without recomputation, or the
  /// smallest one.
  void extra_time(double share) {
    const auto budget = std::max<int64_t>(least_, std::llround(share * static_cast<double>(most_)));
    auto function = compiled(subject_, Options().with_memory_budget(budget));
    const auto where =
        budget == least_ ? std::string("@smallest") : fmt::format("@{:.0f}%", 100 * share);
    const auto pair = time_pairs(
        subject_.name + where, bench_.rounds(3 * subject_.rounds),
        [&] { step(subject_, function); }, [&] { step(subject_, plain_); });
    const auto predicted = report_of(function).recompute_share, measured = pair.ratio - 1;
    add(where, "predicted_extra", predicted, "");
    add(where, "measured_extra", measured, "", Peer{"predicted", predicted});
    const bool gpu = subject_.x.is_cuda();
    add(where, "extra_error", std::abs(measured - predicted), "", {},
        gpu ? std::optional(kExtraError) : std::nullopt);
    if (gpu) {
      add(where, "measured_peak", mib(peak_bytes(subject_, function)), "MiB",
          Peer{"budget", mib(budget)}, kMostOfBudget * mib(budget));
    }
  }

  /// All that is saved goes to the host and comes back, compared with the longer of computing and
  /// copying.
  void offload() {
    auto function = compiled(subject_, Options());
    const auto hooks = compress::offload_to_host();
    int64_t bytes = 0;
    const auto offloading = [&](const at::Tensor& x, const at::Tensor& y) {
      const SavedTensorHooks scope(hooks);
      const auto loss = function(x, y);
      bytes = compress::offloaded_bytes();
      return loss;
    };
    const auto pair = time_pairs(
        subject_.name + "@offload", bench_.rounds(subject_.rounds),
        [&] { step(subject_, offloading); }, [&] { step(subject_, plain_); });
    const auto longer = std::max(pair.second_ms, there_and_back_ms(bytes));
    add("@offload", "step_ms", pair.first_ms, "ms",
        Peer{"the longer of computing and copying", longer}, 1.15 * longer);
  }

  static double there_and_back_ms(int64_t bytes) {
    constexpr int64_t kBlock = int64_t{256} << 20;
    const auto device = at::zeros({kBlock}, at::device(at::kCUDA).dtype(at::kByte));
    const auto host = at::zeros({kBlock}, at::device(at::kCPU).dtype(at::kByte)).pin_memory();
    const auto both = time_us(5, 1, [&] {
      host.copy_(device, /*non_blocking=*/true);
      device.copy_(host, /*non_blocking=*/true);
      torch::cuda::synchronize();
    });
    return both / 1e3 * static_cast<double>(bytes) / kBlock;
  }

  void within(int64_t budget) {
    const auto where = fmt::format("@{:.1f}MiB", mib(budget));
    auto function = compiled(subject_, Options().with_memory_budget(budget));
    const auto pair = time_pairs(
        subject_.name + where, bench_.rounds(subject_.rounds), [&] { step(subject_, function); },
        [&] { step(subject_, plain_); });
    const auto peak = mib(peak_bytes(subject_, function));
    const auto program = report_of(function);
    const auto predicted = mib(program.predicted_peak_bytes);
    const auto error = std::abs(predicted - peak) / peak;
    add(where, "measured_peak", peak, "MiB", Peer{"eager", eager_peak_mib_},
        kMostOfBudget * mib(budget));
    add(where, "predicted_peak", predicted, "MiB", Peer{"measured", peak});
    add(where, "prediction_error", error, "", {}, kPredictionError);
    add(where, "step_ms", pair.first_ms, "ms", Peer{"compiled without a budget", pair.second_ms});
    add(where, "recompute_ms", pair.difference_ms, "ms");
    if (points_.size() > 1 && peak > points_.back().peak_mib) ++rises_;
    worst_of_budget_ = std::max(worst_of_budget_, peak / mib(budget));
    worst_error_ = std::max(worst_error_, error);
    planning_again_ms_.push_back(program.planning_ms);
    points_.push_back({peak, pair.first_ms, pair.difference_ms});
  }

  void sum_up() {
    add("", "smallest_peak", points_.back().peak_mib, "MiB", Peer{"eager", eager_peak_mib_});
    add("", "largest_peak_of_budget", worst_of_budget_, "", {}, kMostOfBudget);
    add("", "largest_prediction_error", worst_error_, "", {}, kPredictionError);
    add("", "peaks_that_rise", rises_, "", {}, 0);
    add("", "planning_ms", planning_ms_, "ms");
    add("", "planning_again_ms", examples::median(planning_again_ms_), "ms");
    add("", "planning_other_size_ms", examples::median(planning_other_size_ms_), "ms");
  }

  /// With the peak of eager under a checkpoint around every block as the budget.
  void beside_checkpoints() {
    const auto theirs = peak_bytes(subject_, subject_.checkpointed);
    if (theirs < least_) {
      note(
          fmt::format("{}: no plan for the {:.1f} MiB of checkpoints; the smallest one, {:.1f} MiB",
                      subject_.name, mib(theirs), mib(least_)));
    }
    auto function = compiled(subject_, Options().with_memory_budget(std::max(theirs, least_)));
    const std::string where = "@checkpoints", peer = "eager, a checkpoint a block";
    const auto pair = time_pairs(
        subject_.name + where, bench_.rounds(3 * subject_.rounds),
        [&] { step(subject_, function); }, [&] { step(subject_, subject_.checkpointed); });
    add(where, "measured_peak", mib(peak_bytes(subject_, function)), "MiB", Peer{peer, mib(theirs)},
        kMostOfBudget * mib(theirs));
    add(where, "step_ms", pair.first_ms, "ms", Peer{peer, pair.second_ms});
    add(where, "ratio_to_checkpoints", pair.ratio, "", {},
        subject_.name == "gpt" ? std::optional(1.0) : std::nullopt);
  }

  /// Compares each of AOTAutograd's budgets with our fastest point that uses no more memory.
  void beside_reference() {
    note(subject_.name + ": AOTAutograd's budgets");
    std::vector<std::string> words = {std::to_string(bench_.quick() ? 5 : 21),
                                      std::to_string(subject_.peer_seconds)};
    words.insert(words.end(), subject_.peer_words.begin(), subject_.peer_words.end());
    const auto found = run_peer("budget.py", words);
    if (!found) return;
    if (const auto& missing = found->at("not_measured"); !missing.empty()) {
      note(
          fmt::format("{}: AOTAutograd's budgets {} took too long", subject_.name, missing.dump()));
    }
    for (const auto& theirs : found->at("points")) {
      const auto budget = theirs.at("budget").get<double>();
      const auto peak = theirs.at("peak_mib").get<double>();
      const auto* ours = fastest_within(peak);
      if (ours == nullptr) {
        note(fmt::format("{}: AOTAutograd's budget {} takes {:.1f} MiB, less than any of ours",
                         subject_.name, budget, peak));
        continue;
      }
      const auto where = fmt::format("@reference_{:.2f}", budget);
      const auto beside = [&](const char* key) {
        return Peer{"activation_memory_budget", theirs.at(key).get<double>()};
      };
      add(where, "measured_peak", ours->peak_mib, "MiB", beside("peak_mib"));
      add(where, "step_ms", ours->step_ms, "ms", beside("step_ms"));
      add(where, "recompute_ms", ours->recompute_ms, "ms", beside("recompute_ms"));
    }
  }

  const Point* fastest_within(double peak) const {
    const Point* best = nullptr;
    for (const auto& point : points_) {
      if (point.peak_mib > peak) continue;
      if (best == nullptr || point.recompute_ms < best->recompute_ms) best = &point;
    }
    return best;
  }

  Bench& bench_;
  Subject subject_;
  Compiled<Loss> plain_;
  int64_t least_ = 0, most_ = 0;  // budgets
  double eager_peak_mib_ = 0;
  std::vector<Point> points_;  // the first one has no budget
  int rises_ = 0;
  double worst_of_budget_ = 0, worst_error_ = 0;
  double planning_ms_ = 0;                 // for the first budget
  std::vector<double> planning_again_ms_;  // for the other budgets
  std::vector<double> planning_other_size_ms_;
};

template <class Model>
Subject subject_of(std::string name, Model model, at::Tensor x, at::Tensor y) {
  const auto checkpoints = [](const examples::Block& block, const at::Tensor& in) {
    return checkpoint(block, in);
  };
  Subject subject;
  subject.name = std::move(name);
  subject.module = model.ptr();
  subject.loss = [model](at::Tensor a, at::Tensor b) mutable { return model->loss(a, b); };
  subject.checkpointed = [model, checkpoints](at::Tensor a, at::Tensor b) mutable {
    return model->loss(a, b, checkpoints);
  };
  subject.x = std::move(x);
  subject.y = std::move(y);
  return subject;
}

Subject on_gpu(Subject subject) {
  subject.module->to(at::kCUDA, at::kBFloat16);
  const auto moved = [](const at::Tensor& x) {
    return x.is_floating_point() ? x.to(at::kCUDA, at::kBFloat16) : x.to(at::kCUDA);
  };
  subject.x = moved(subject.x);
  subject.y = moved(subject.y);
  subject.rounds = 10;
  return subject;
}

/// GPT-2 small.
Subject large_gpt() {
  torch::manual_seed(0);
  const examples::GptConfig config{
      .vocabulary = 50304, .layers = 12, .width = 768, .heads = 12, .context = 1024};
  const auto tokens = random_tokens(config, 8);
  return on_gpu(subject_of("gpt2", examples::Gpt(config), tokens.inputs, tokens.targets));
}

Subject large_resnet() {
  torch::manual_seed(0);
  constexpr int64_t kImages = 64;
  return on_gpu(subject_of("resnet50", ResNet50(), at::randn({kImages, 3, 224, 224}),
                           at::randint(ResNet50Impl::kClasses, {kImages}, at::kLong)));
}

Subject large_mlp() {
  torch::manual_seed(0);
  const examples::MlpConfig config{.layers = 24, .width = 2048};
  return on_gpu(subject_of("mlp", examples::Mlp(config), at::randn({8192, config.width}),
                           at::randn({8192, config.width})));
}

/// The GPT and the MLP of bench_step.
Subject gpt() {
  torch::manual_seed(0);
  const examples::GptConfig config{
      .vocabulary = 512, .layers = 6, .width = 384, .heads = 6, .context = 256};
  constexpr int64_t kSequences = 8;
  const auto tokens = random_tokens(config, kSequences);
  auto subject = subject_of("gpt", examples::Gpt(config), tokens.inputs, tokens.targets);
  subject.rounds = 3;
  subject.peer_seconds = 60;
  subject.peer_words = peer_words(config, kSequences);
  return subject;
}

Subject resnet() {
  torch::manual_seed(0);
  const examples::ResNetConfig config;
  constexpr int64_t kImages = 64, kImage = 32;
  auto subject =
      subject_of("resnet", examples::ResNet(config), at::randn({kImages, 3, kImage, kImage}),
                 at::randint(config.classes, {kImages}, at::kLong));
  subject.rounds = 7;
  subject.peer_seconds = 30;
  subject.peer_words = peer_words("resnet", {kImages, kImage, config.classes, config.blocks});
  for (const auto width : config.widths) subject.peer_words.push_back(std::to_string(width));
  return subject;
}

Subject mlp() {
  torch::manual_seed(0);
  const examples::MlpConfig config;
  constexpr int64_t kRows = 4096;
  auto subject = subject_of("mlp", examples::Mlp(config), at::randn({kRows, config.width}),
                            at::randn({kRows, config.width}));
  subject.rounds = 3;
  subject.peer_seconds = 30;
  subject.peer_words = peer_words("mlp", {kRows, config.layers, config.width});
  subject.peer_words.push_back(fmt::format("{}", config.dropout));
  return subject;
}

}  // namespace
}  // namespace antegrad::bench

int main(int argc, char** argv) {
  using namespace antegrad::bench;
  return run_bench([&] {
    Bench bench("budget", argc, argv);
    const bool gpu = torch::cuda::is_available();
    for (const auto& make :
         {gpu ? large_gpt : gpt, gpu ? large_resnet : resnet, gpu ? large_mlp : mlp}) {
      BudgetBench(bench, make()).run();
    }
  });
}
