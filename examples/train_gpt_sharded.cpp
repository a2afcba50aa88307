// Trains a byte-level GPT on real text, sharded over 1, 2 and 4 processes with the same batches,
// and compares: losses, time, memory of a process, bytes that processes exchange.
//
// Without a launcher it starts the processes itself. Under torchrun, mpirun or with RANK and
// WORLD_SIZE set, it is one of them:
//
//   train_gpt_sharded --ranks 1,2,4
//   torchrun --no-python --nproc-per-node 2 train_gpt_sharded --checkpoint out/gpt
//
// Exit status: 0 if the losses agree, 1 if they do not, 2 if it could not run.

#include <ATen/Parallel.h>
#include <antegrad/antegrad.h>
#include <antegrad/charts.h>
#include <fmt/format.h>
#include <torch/optim/adamw.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>

#include "common/measure.h"
#include "common/models.h"
#include "common/output.h"
#include "common/processes.h"
#include "common/progress.h"
#include "common/table.h"
#include "common/text_data.h"
#include "common/transformer.h"

namespace antegrad::examples {
namespace {

using Json = nlohmann::json;

struct Settings {
  GptConfig model{.dropout = 0};
  int64_t steps = 60;
  int64_t batch = 8;  // of all ranks together
  double learning_rate = 1e-3;
  uint64_t seed = 1;
  bool half = false;
  std::vector<int> ranks = {1, 2, 4};
  std::string text;
  std::string checkpoint;
  std::filesystem::path out = "out/demo-sharded";
};

constexpr size_t kMaxTextBytes = size_t{8} << 20;
/// Sums of other numbers of ranks round differently, and training makes more of it.
constexpr double kAllowedDifference = 0.02;

Corpus corpus_of(const Settings& settings) {
  return read_corpus(
      settings.text.empty() ? torch_package_folder() : std::filesystem::path(settings.text),
      kMaxTextBytes);
}

// --- one rank ------------------------------------------------------------------------------------

class Rank {
 public:
  explicit Rank(const Settings& settings)
      : settings_(settings),
        group_(ProcessGroup::of_environment()),
        model_(seeded()),
        sharded_(shard()),
        optimizer_(sharded_.parameters(), torch::optim::AdamWOptions(settings.learning_rate)),
        step_(compile(model_,
                      Loss([model = model_](const at::Tensor& x, const at::Tensor& y) mutable {
                        return model->loss(x, y);
                      }),
                      Options().with_name("train_gpt_sharded"))) {
    if (settings.batch % group_.size() != 0) {
      throw InputError(
          ErrorText{"a batch that the ranks can share",
                    fmt::format("{} sequences for {} ranks", settings.batch, group_.size()),
                    "pass another --batch"});
    }
  }

  Json train() {
    const auto corpus = corpus_of(settings_);
    BatchSampler batches(corpus, settings_.batch, settings_.model.context, settings_.seed);
    const auto done = settings_.checkpoint.empty()
                          ? -1
                          : load_checkpoint(settings_.checkpoint, sharded_, &optimizer_);
    const bool shows = group_.rank() == 0;
    if (shows && done >= 0) fmt::print("goes on after step {}\n", done + 1);
    std::optional<Progress> progress;
    if (shows) progress.emplace(fmt::format("{} ranks", group_.size()), settings_.steps);
    for (int64_t i = 0; i < settings_.steps; ++i) {
      const auto batch = batches.next();
      if (i <= done) continue;
      train_step(batch);
      if (progress) progress->update(i + 1, fmt::format("loss {:.3f}", losses_.back()));
      const bool last = i + 1 == settings_.steps;
      if (!settings_.checkpoint.empty() && (last || i % 20 == 19)) {
        save_checkpoint(settings_.checkpoint, sharded_, &optimizer_, i);
      }
    }
    progress.reset();
    return results(batches.next());
  }

  int rank() const { return group_.rank(); }
  int ranks() const { return group_.size(); }

 private:
  using Loss = std::function<at::Tensor(const at::Tensor&, const at::Tensor&)>;

  Gpt seeded() {
    torch::manual_seed(settings_.seed);
    return Gpt(settings_.model);
  }

  // A unit for each block, and one for the embeddings and the last layer.
  Sharded shard() {
    ShardOptions options;
    if (settings_.half) options = {.gather_dtype = at::kBFloat16, .reduce_dtype = at::kFloat};
    for (const auto& module : model_->modules(/*include_self=*/false)) {
      if (module->as<TransformerBlock>() != nullptr) fully_shard(*module, group_, options);
    }
    return fully_shard(*model_, group_, options);
  }

  // The rows of a batch that are this rank's.
  Batch part(const Batch& batch) const {
    const auto rows = settings_.batch / group_.size();
    const auto of_rank = [&](const at::Tensor& all) {
      return all.narrow(0, rows * group_.rank(), rows).contiguous();
    };
    return {of_rank(batch.inputs), of_rank(batch.targets)};
  }

  void train_step(const Batch& batch) {
    const auto mine = part(batch);
    const Stopwatch watch;
    optimizer_.zero_grad();
    const auto loss = step_(mine.inputs, mine.targets);
    loss.backward();
    sharded_.clip_grad_norm_(1);
    optimizer_.step();
    step_ms_.push_back(watch.milliseconds());
    losses_.push_back(group_.mean(loss.item<double>()));
  }

  Json results(const Batch& batch) {
    const auto mine = part(batch);
    optimizer_.zero_grad();
    const auto before = group_.stats();
    const auto memory = measure_memory([&] { return step_(mine.inputs, mine.targets); });
    const auto after = group_.stats();
    int64_t kept = 0;  // parameters, gradients, two moments
    for (const auto& shard : sharded_.parameters())
      kept += 4 * static_cast<int64_t>(shard.nbytes());
    return {{"losses", losses_},
            {"step_ms", median(step_ms_)},
            {"kept_bytes", kept},
            {"peak_bytes", memory.peak_bytes},
            {"exchanged_bytes", after.bytes - before.bytes},
            {"eager_calls", step_.report().eager_calls}};
  }

  const Settings& settings_;
  ProcessGroup group_;
  Gpt model_;
  Sharded sharded_;
  torch::optim::AdamW optimizer_;
  Compiled<Loss> step_;
  std::vector<double> losses_, step_ms_;
};

std::filesystem::path results_file(const Settings& settings, int ranks) {
  return settings.out / fmt::format("ranks-{}.json", ranks);
}

int run_rank(const Settings& settings) {
  Rank rank(settings);
  const auto results = rank.train();
  if (rank.rank() == 0) {
    make_folder(settings.out);
    write_file(results_file(settings, rank.ranks()), results.dump());
  }
  return 0;
}

// --- all -----------------------------------------------------------------------------------------

struct Run {
  int ranks = 1;
  Json results;

  std::vector<double> losses() const { return results.at("losses").get<std::vector<double>>(); }
};

double largest_difference(const Run& run, const Run& first) {
  const auto a = first.losses(), b = run.losses();
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const auto difference = std::abs(a[i] - b[i]);
    if (!(difference <= largest)) largest = difference;  // also a NaN
  }
  return largest;
}

Table table_of(const std::vector<Run>& runs, const Settings& settings) {
  std::vector<std::string> head = {""};
  for (const auto& run : runs) {
    head.push_back(run.ranks == 1 ? "1 process" : fmt::format("{} processes", run.ranks));
  }
  Table table(head);
  const auto row = [&](const char* title, const auto& text_of) {
    std::vector<std::string> cells = {title};
    for (const auto& run : runs) cells.push_back(text_of(run));
    table.add(cells);
  };
  const auto bytes = [&](const char* title, const char* key) {
    row(title, [&](const Run& run) { return format_bytes(run.results.at(key).get<int64_t>()); });
  };
  row("final loss", [](const Run& run) { return fmt::format("{:.6f}", run.losses().back()); });
  row("largest difference of losses",
      [&](const Run& run) { return fmt::format("{:.2g}", largest_difference(run, runs[0])); });
  row("step, median", [](const Run& run) {
    return fmt::format("{:.1f} ms", run.results.at("step_ms").get<double>());
  });
  row("tokens/s", [&](const Run& run) {
    const auto tokens = static_cast<double>(settings.batch * settings.model.context);
    return short_number(1e3 * tokens / run.results.at("step_ms").get<double>());
  });
  bytes("of a process: parameters, gradients, optimizer", "kept_bytes");
  bytes("of a process: peak of a step, measured", "peak_bytes");
  bytes("of a process: handed to collectives in a step", "exchanged_bytes");
  row("eager calls", [](const Run& run) { return run.results.at("eager_calls").dump(); });
  return table;
}

std::string loss_chart(const std::vector<Run>& runs) {
  std::vector<ChartSeries> series;
  for (const auto& run : runs) {
    const auto losses = run.losses();
    std::vector<double> steps(losses.size());
    std::iota(steps.begin(), steps.end(), 1);
    series.push_back({fmt::format("{} ranks", run.ranks), steps, losses, run.ranks > 1});
  }
  return line_chart_svg(series, {"Training loss", "step", "loss"});
}

int run_all(const Settings& settings, const std::vector<std::string>& words) {
  make_folder(settings.out);
  const auto head = fmt::format(
      "GPT: {} layers, width {}, context {}, {}: {} parameters, sharded by block.\n"
      "{} steps of {} sequences over all processes, AdamW, gradients clipped to 1. Each process "
      "has "
      "one thread.\n",
      settings.model.layers, settings.model.width, settings.model.context,
      settings.half ? "gathered as bfloat16" : "float32",
      short_number(static_cast<double>(parameter_count(*Gpt(settings.model)))), settings.steps,
      settings.batch);
  fmt::print("{}\n", head);
  std::fflush(stdout);  // before that of the processes
  std::vector<Run> runs;
  for (const int ranks : settings.ranks) {
    std::error_code ignored;
    std::filesystem::remove(results_file(settings, ranks), ignored);
    if (const int failed = run_ranks(ranks, this_program(), words); failed != 0) {
      throw Error(fmt::format("a process of {} ended with status {}", ranks, failed));
    }
    std::ifstream in(results_file(settings, ranks));
    runs.push_back({ranks, Json::parse(in)});
  }
  const auto table = table_of(runs, settings);
  bool agree = true;
  for (const auto& run : runs)
    agree = agree && largest_difference(run, runs[0]) < kAllowedDifference;
  const auto verdict =
      agree ? "The losses agree. They differ where sums over other numbers of processes round "
              "differently.\n"
            : "DIFFERENT: the losses do not agree.\n";
  fmt::print("\n{}\n{}", table.text(), verdict);
  write_file(settings.out / "loss.svg", loss_chart(runs));
  write_file(settings.out / "report.txt", head + "\n" + table.text() + "\n" + verdict);
  fmt::print("Written to {}: report.txt, loss.svg\n", settings.out.string());
  return agree ? 0 : 1;
}

int run_main(int argc, char** argv) {
  Settings settings;
  const CLI::Range count(int64_t{1}, int64_t{1} << 30);
  CLI::App app("Trains a byte-level GPT sharded over several processes, and compares.",
               "train_gpt_sharded");
  app.option_defaults()->always_capture_default();
  app.add_option("--ranks", settings.ranks, "numbers of processes to start, in turn")
      ->delimiter(',')
      ->check(CLI::Range(1, 64));
  app.add_option("--steps", settings.steps, "training steps")->check(count);
  app.add_option("--layers", settings.model.layers, "transformer blocks")->check(count);
  app.add_option("--width", settings.model.width, "width of the model")->check(count);
  app.add_option("--heads", settings.model.heads, "attention heads")->check(count);
  app.add_option("--context", settings.model.context, "bytes in a sequence")->check(count);
  app.add_option("--batch", settings.batch, "sequences in a step, of all processes")->check(count);
  app.add_option("--lr", settings.learning_rate, "learning rate")->check(CLI::NonNegativeNumber);
  app.add_option("--seed", settings.seed, "of weights and batches");
  app.add_flag("--bf16", settings.half,
               "gather parameters as bfloat16, and add gradients up in float32");
  app.add_option("--checkpoint", settings.checkpoint,
                 "folder of a checkpoint, to go on from and to save in; only under a launcher");
  app.add_option("--text", settings.text,
                 "a text file, or a folder of Python sources; default: those of torch");
  app.add_option("--out", settings.out, "folder for report and chart");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    if (is_launched()) return run_rank(settings);
    return run_all(settings, std::vector<std::string>(argv + 1, argv + argc));
  } catch (const std::exception& error) {
    fmt::print(stderr, "train_gpt_sharded: {}\n", error.what());
    return 2;
  }
}

}  // namespace
}  // namespace antegrad::examples

int main(int argc, char** argv) { return antegrad::examples::run_main(argc, argv); }
