// Trains a byte-level GPT from one seed eagerly and with generated kernels, exact and close, and a
// fourth time eagerly with one weight a unit in the last place off. Losses of exact must be those
// of eager, bit for bit; those of close may be as far away as the nudged run's. Exit status: 0 if
// exact is equal, 1 if it differs, 2 if it could not run.

#include <ATen/Parallel.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/nextafter.h>
#include <antegrad/antegrad.h>
#include <antegrad/charts.h>
#include <fmt/format.h>
#include <torch/utils.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <span>

#include "common/output.h"
#include "common/table.h"
#include "common/text_data.h"
#include "common/training_run.h"

namespace antegrad::examples {
namespace {

struct Settings {
  TrainingSettings training{
      .model = {.layers = 2, .width = 64, .heads = 4, .context = 32, .dropout = 0.1},
      .steps = 2000};
  int threads = 0;  // 0: libtorch's default
  std::string text;
  std::filesystem::path out = "out/lowering";
};

constexpr size_t kMaxTextBytes = size_t{8} << 20;
/// Steps that a point of the charts and the last row of the table tell of.
constexpr size_t kWindow = 20;
constexpr size_t kLast = 200;

struct Runs {
  explicit Runs(const TrainingSettings& settings)
      : eager("eager", settings, {}),
        exact("exact", settings, lowered(Lowering::exact)),
        close("close", settings, lowered(Lowering::close)),
        nudged("eager, nudged", settings, {}) {
    const at::NoGradGuard guard;
    auto weight = nudged.parameters().at(0).view(-1)[0];
    weight.copy_(at::nextafter(weight, at::full({}, INFINITY)));
  }

  static Options lowered(Lowering lowering) {
    return Options().with_lowering(lowering).with_keep_slow_kernels(true);
  }

  std::array<TrainingRun*, 4> all() { return {&eager, &exact, &close, &nudged}; }

  TrainingRun eager, exact, close, nudged;
};

void train(const Settings& settings, const Corpus& corpus, Runs& runs) {
  const auto& training = settings.training;
  BatchSampler batches(corpus, training.batch, training.model.context, training.seed);
  Progress progress("train", training.steps);
  for (int64_t i = 0; i < training.steps; ++i) {
    const auto batch = batches.next();
    for (auto* run : runs.all()) run->train_step(batch);
    progress.update(i + 1, fmt::format("loss {:.3f}", runs.eager.losses.back()));
  }
}

bool equal(const TrainingRun& a, const TrainingRun& b) {
  const auto expected = a.parameters(), found = b.parameters();
  return a.losses == b.losses && std::ranges::equal(expected, found, at::equal);
}

std::vector<double> differences(const TrainingRun& run, const TrainingRun& eager) {
  std::vector<double> result;
  for (size_t i = 0; i < run.losses.size(); ++i) {
    result.push_back(run.losses[i] - eager.losses[i]);
  }
  return result;
}

/// One number for each window of steps, at its last step.
ChartSeries by_window(const std::string& name, const std::vector<double>& values, bool dashed,
                      double (*of)(std::span<const double>)) {
  ChartSeries series{name, {}, {}, dashed};
  for (size_t i = 0; i < values.size(); i += kWindow) {
    const auto window = std::span(values).subspan(i, std::min(kWindow, values.size() - i));
    series.x.push_back(static_cast<double>(i + window.size()));
    series.y.push_back(of(window));
  }
  return series;
}

double mean(std::span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double largest(std::span<const double> values) {
  double result = 0;
  for (const double value : values) result = std::max(result, std::abs(value));
  return result;
}

/// Not finite where there is no difference: the line is interrupted.
double log_of_largest(std::span<const double> values) { return std::log10(largest(values)); }

std::string loss_chart(const Runs& runs) {
  return line_chart_svg({by_window("eager", runs.eager.losses, false, mean),
                         by_window("exact", runs.exact.losses, true, mean),
                         by_window("close", runs.close.losses, true, mean)},
                        {"Training loss, mean of 20 steps", "step", "loss"});
}

std::string difference_chart(const Runs& runs) {
  return line_chart_svg(
      {by_window("close", differences(runs.close, runs.eager), false, log_of_largest),
       by_window("eager, one weight one unit off", differences(runs.nudged, runs.eager), false,
                 log_of_largest)},
      {"Largest difference from eager's loss in 20 steps (exact: none)", "step",
       "log10 of the difference"});
}

Table results_table(const Runs& runs) {
  Table table({"", "eager", "exact", "close", "nudged"});
  const auto row = [&](const char* title, const auto& text_of) {
    table.add({title, text_of(runs.eager), text_of(runs.exact), text_of(runs.close),
               text_of(runs.nudged)});
  };
  const auto last = [](const std::vector<double>& values) {
    return mean(std::span(values).last(std::min(kLast, values.size())));
  };
  row("loss of the last step",
      [](const TrainingRun& run) { return fmt::format("{:.6f}", run.losses.back()); });
  row("mean loss of the last 200 steps",
      [&](const TrainingRun& run) { return fmt::format("{:.6f}", last(run.losses)); });
  row("largest difference from eager", [&](const TrainingRun& run) {
    return fmt::format("{:.3g}", largest(differences(run, runs.eager)));
  });
  row("mean difference from eager, all steps", [&](const TrainingRun& run) {
    return fmt::format("{:.2g}", mean(differences(run, runs.eager)));
  });
  row("kernels in a step", [](const TrainingRun& run) {
    size_t kernels = 0;
    for (const auto& program : run.report().programs) kernels += program.generated_kernels.size();
    return std::to_string(kernels);
  });
  row("step, median",
      [](const TrainingRun& run) { return fmt::format("{:.1f} ms", median(run.step_ms)); });
  return table;
}

std::string describe(const Settings& settings, const Corpus& corpus) {
  const auto& training = settings.training;
  const auto& model = training.model;
  return fmt::format(
      "GPT: {} layers, width {}, {} heads, context {}, dropout {}. Text: {}.\n"
      "{} steps of {} x {} tokens, AdamW, learning rate {}, seed {}, {} threads.\n",
      model.layers, model.width, model.heads, model.context, model.dropout, corpus.source,
      training.steps, training.batch, model.context, training.learning_rate, training.seed,
      at::get_num_threads());
}

int run_all(const Settings& settings) {
  if (settings.threads > 0) at::set_num_threads(settings.threads);
  make_folder(settings.out);
  const auto corpus = read_corpus(
      settings.text.empty() ? torch_package_folder() : std::filesystem::path(settings.text),
      kMaxTextBytes);
  const auto head = describe(settings, corpus);
  fmt::print("{}\n", head);
  Runs runs(settings.training);
  train(settings, corpus, runs);

  const bool is_equal = equal(runs.eager, runs.exact);
  const auto verdict = is_equal
                           ? "exact is equal to eager, bit for bit: all losses, all parameters.\n"
                           : "DIFFERENT: exact is not what eager does.\n";
  const auto text = head + "\n" + results_table(runs).text() + "\n" + verdict;
  fmt::print("\n{}", text);
  write_file(settings.out / "lowering_loss.svg", loss_chart(runs));
  write_file(settings.out / "lowering_difference.svg", difference_chart(runs));
  write_file(settings.out / "report.txt", text);
  return is_equal ? 0 : 1;
}

int run_main(int argc, char** argv) {
  Settings settings;
  auto& training = settings.training;
  const CLI::Range count(int64_t{1}, int64_t{1} << 30);
  CLI::App app("Trains a byte-level GPT eagerly and with generated kernels, and compares losses.",
               "compare_lowering");
  app.option_defaults()->always_capture_default();
  app.add_option("--steps", training.steps, "training steps")->check(count);
  app.add_option("--layers", training.model.layers, "transformer blocks")->check(count);
  app.add_option("--width", training.model.width, "width of the model")->check(count);
  app.add_option("--context", training.model.context, "bytes in a sequence")->check(count);
  app.add_option("--batch", training.batch, "sequences in a step")->check(count);
  app.add_option("--seed", training.seed, "of weights, dropout and batches");
  app.add_option("--text", settings.text,
                 "a text file, or a folder of Python sources; default: those of torch");
  app.add_option("--out", settings.out, "folder for report and charts");
  app.add_option("--threads", settings.threads, "of libtorch; 0: its own choice")
      ->check(CLI::Range(0, 1024));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    return run_all(settings);
  } catch (const std::exception& error) {
    fmt::print(stderr, "compare_lowering: {}\n", error.what());
    return 2;
  }
}

}  // namespace
}  // namespace antegrad::examples

int main(int argc, char** argv) { return antegrad::examples::run_main(argc, argv); }
