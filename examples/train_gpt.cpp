// Trains three byte-level GPTs on real text from the same seed: one eagerly, one compiled by
// antegrad, and one compiled with half of eager's memory. Losses and parameters must be equal, bit
// for bit. Exit status: 0 if they are, 1 if they differ, 2 if it could not run.

#include <ATen/Parallel.h>
#include <ATen/ops/equal.h>
#include <antegrad/antegrad.h>
#include <antegrad/charts.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "common/output.h"
#include "common/table.h"
#include "common/text_data.h"
#include "common/training_run.h"

namespace antegrad::examples {
namespace {

struct Settings {
  TrainingSettings training;
  int threads = 0;  // 0: libtorch's default
  std::string text;
  std::filesystem::path out = "out/demo";
};

constexpr size_t kMaxTextBytes = size_t{8} << 20;
constexpr int kMeasuredSteps = 5;

/// The three runs that are compared.
struct Runs {
  TrainingRun eager, compiled, budgeted;
  FeasibleBudget budget;

  std::array<TrainingRun*, 3> all() { return {&eager, &compiled, &budgeted}; }
};

BatchSampler sampler(const Settings& settings, const Corpus& corpus) {
  const auto& training = settings.training;
  return {corpus, training.batch, training.model.context, training.seed};
}

/// Half of eager's peak, in whole mebibytes, or the smallest feasible budget.
FeasibleBudget half_of_eager(const Settings& settings, const Corpus& corpus) {
  const auto batch = sampler(settings, corpus).next();
  TrainingRun eager("eager", settings.training, {});
  eager.measure_step(batch);  // libtorch's one-time allocations
  const auto mebibytes = (eager.measure_step(batch).peak_bytes / 2 + (1_MiB / 2)) / 1_MiB;
  auto budget = feasible_budget(settings.training, batch, std::max<int64_t>(mebibytes, 1) * 1_MiB);
  if (budget.is_smallest) budget.bytes = (budget.bytes + 1_MiB - 1) / 1_MiB * 1_MiB;
  return budget;
}

std::string budget_text(const Runs& runs) {
  return fmt::format("{} MiB", runs.budget.bytes / 1_MiB);
}

/// Trains the runs in turns, step by step, so that disturbances on the machine affect all of them.
void train(const Settings& settings, const Corpus& corpus, Runs& runs) {
  auto batches = sampler(settings, corpus);
  const auto steps = settings.training.steps;
  Progress progress("train", steps);
  for (int64_t i = 0; i < steps; ++i) {
    const auto batch = batches.next();
    std::string rates;
    for (auto* run : runs.all()) {
      run->train_step(batch);
      rates += fmt::format("{} {} {}", rates.empty() ? "" : ",", run->name,
                           short_number(run->tokens.per_second()));
    }
    progress.update(i + 1, fmt::format("loss {:.3f} {} tok/s", runs.compiled.losses.back(), rates));
  }
}

/// Takes the fastest of a few steps: other processes on the machine disturbed it least.
void measure(const Settings& settings, const Corpus& corpus, TrainingRun& run) {
  const auto batch = sampler(settings, corpus).next();
  for (int i = 0; i < kMeasuredSteps; ++i) {
    auto memory = run.measure_step(batch);
    if (i == 0 || memory.milliseconds < run.memory.milliseconds) run.memory = std::move(memory);
  }
}

/// Quantities that must be equal, and by how much they differ.
struct Comparison {
  double largest_loss_difference = 0;
  int64_t losses_that_differ = 0;
  size_t first_difference = 0;  // step, from 1
  int64_t parameters_that_differ = 0;
  bool generators_equal = false;
  int64_t eager_calls = 0;

  bool equal() const {
    return losses_that_differ == 0 && parameters_that_differ == 0 && generators_equal &&
           eager_calls == 0;
  }
};

Comparison compare(const TrainingRun& eager, const TrainingRun& compiled) {
  Comparison result;
  for (size_t i = 0; i < eager.losses.size(); ++i) {
    const auto a = eager.losses[i], b = compiled.losses[i];
    if (std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b)) continue;
    if (result.losses_that_differ++ == 0) result.first_difference = i + 1;
    const auto difference = std::abs(a - b);  // a NaN must not look like 0
    if (!(difference <= result.largest_loss_difference))
      result.largest_loss_difference = difference;
  }
  const auto expected = eager.parameters(), found = compiled.parameters();
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!at::equal(expected[i], found[i])) ++result.parameters_that_differ;
  }
  result.generators_equal = at::equal(eager.generator_state, compiled.generator_state);
  result.eager_calls = compiled.report().eager_calls;
  return result;
}

std::string verdict_on(const Runs& runs, const Comparison& compiled, const Comparison& budgeted) {
  if (compiled.equal() && budgeted.equal()) {
    return fmt::format(
        "Equal bit for bit, eager, compiled and compiled within {}: all losses, all parameters, "
        "the generator's state.\n",
        budget_text(runs));
  }
  std::string text;
  for (const auto& [run, comparison] :
       {std::pair(&runs.compiled, &compiled), std::pair(&runs.budgeted, &budgeted)}) {
    if (comparison->equal()) continue;
    text += fmt::format("DIFFERENT: the run '{}' is not what eager does.", run->name);
    if (comparison->losses_that_differ > 0) {
      text += fmt::format(" {} losses differ, the first at step {}.",
                          comparison->losses_that_differ, comparison->first_difference);
    }
    if (comparison->eager_calls > 0) text += " Some calls ran eagerly.";
    text += "\n";
  }
  return text;
}

std::string ratio(double value, double eager) {
  return eager > 0 ? fmt::format("{:.3f}", value / eager) : "";
}

Table results_table(const Settings& settings, const Runs& runs, const Comparison& compiled,
                    const Comparison& budgeted) {
  const auto &a = runs.eager, &b = runs.compiled, &c = runs.budgeted;
  Table table({"", a.name, b.name, c.name, b.name + " / " + a.name, c.name + " / " + a.name});
  const auto loss = [](const TrainingRun& run) { return fmt::format("{:.6f}", run.losses.back()); };
  table.add({"final loss", loss(a), loss(b), loss(c)});
  const auto beside_eager = [&](const char* title, const auto& text_of) {
    table.add({title, "", text_of(compiled), text_of(budgeted)});
  };
  beside_eager("largest difference of losses", [](const Comparison& comparison) {
    return fmt::format("{:g}", comparison.largest_loss_difference);
  });
  beside_eager("parameters that differ", [&](const Comparison& comparison) {
    return fmt::format("{} of {}", comparison.parameters_that_differ, a.parameters().size());
  });
  beside_eager("generator state", [](const Comparison& comparison) {
    return comparison.generators_equal ? "equal" : "differs";
  });
  const auto row = [&](const char* title, const auto& value_of, const auto& text_of) {
    const double of_a = value_of(a), of_b = value_of(b), of_c = value_of(c);
    table.add(
        {title, text_of(of_a), text_of(of_b), text_of(of_c), ratio(of_b, of_a), ratio(of_c, of_a)});
  };
  const auto step_ms = [](const TrainingRun& run) { return median(run.step_ms); };
  const auto& training = settings.training;
  const auto tokens = static_cast<double>(training.batch * training.model.context);
  row("step, median", step_ms, [](double ms) { return fmt::format("{:.2f} ms", ms); });
  row(
      "tokens/s", [&](const TrainingRun& run) { return 1e3 * tokens / step_ms(run); },
      short_number);
  table.add({"memory budget of a step", "", "", budget_text(runs)});
  const auto bytes = [](double value) { return format_bytes(static_cast<int64_t>(value)); };
  row(
      "peak memory of a step, measured",
      [](const TrainingRun& run) { return static_cast<double>(run.memory.peak_bytes); }, bytes);
  row(
      "held between forward and backward",
      [](const TrainingRun& run) { return static_cast<double>(run.memory.held_bytes); }, bytes);
  return table;
}

/// One column per run; each run has one program.
Table program_table(const Runs& runs) {
  const auto compiled = runs.compiled.report(), budgeted = runs.budgeted.report();
  Table table({"compiled program", runs.compiled.name, runs.budgeted.name});
  const auto row = [&](const char* title, const auto& text_of) {
    const auto text = [&](const Report& report) {
      return report.programs.empty() ? std::string() : std::string(text_of(report.programs[0]));
    };
    table.add({title, text(compiled), text(budgeted)});
  };
  using Program = ProgramReport;
  const auto ms = [](double value) { return fmt::format("{:.1f} ms", value); };
  const auto number = [](int64_t value) { return std::to_string(value); };
  row("capture", [&](const Program& p) { return ms(p.capture_ms); });
  row("passes, partition, programs", [&](const Program& p) { return ms(p.compile_ms); });
  row("of this, plan for the budget", [&](const Program& p) {
    if (p.memory_budget_bytes == 0) return std::string();
    return p.plan_cache == "hit" ? std::string("kept") : ms(p.planning_ms);
  });
  row("nodes: joint", [&](const Program& p) { return number(p.joint_nodes); });
  row("nodes: forward", [&](const Program& p) { return number(p.forward_nodes); });
  row("nodes: backward", [&](const Program& p) { return number(p.backward_nodes); });
  row("nodes: recomputed", [&](const Program& p) {
    int64_t nodes = 0;
    for (const auto& [op, count] : p.recomputed) nodes += count;
    return number(nodes);
  });
  row("parameters and buffers found", [&](const Program& p) { return number(p.lifted_tensors); });
  row("tensors saved for backward", [&](const Program& p) { return number(p.saved_tensors); });
  row("bytes saved for backward", [](const Program& p) { return format_bytes(p.saved_bytes); });
  row("predicted peak", [](const Program& p) { return format_bytes(p.predicted_peak_bytes); });
  row("real kernels run to learn shapes", [&](const Program& p) { return number(p.real_kernels); });
  table.add({"compiled calls", number(compiled.compiled_calls), number(budgeted.compiled_calls)});
  table.add({"eager calls", number(compiled.eager_calls), number(budgeted.eager_calls)});
  return table;
}

std::string loss_chart(const Runs& runs) {
  std::vector<double> steps(runs.eager.losses.size());
  std::iota(steps.begin(), steps.end(), 1);
  const auto series = [&](const TrainingRun& run, bool dashed) {
    return ChartSeries{run.name, steps, run.losses, dashed};
  };
  return line_chart_svg(
      {series(runs.eager, false), series(runs.compiled, true), series(runs.budgeted, true)},
      {"Training loss", "step", "loss"});
}

std::string memory_chart(const Runs& runs) {
  const auto series = [](const TrainingRun& run, bool dashed) {
    return MemorySeries{run.name, run.memory.timeline, dashed, run.memory.backward_ms};
  };
  return memory_chart_svg(
      {series(runs.eager, false), series(runs.compiled, true), series(runs.budgeted, false)},
      "Live memory of one training step, measured");
}

std::string describe(const Settings& settings, const Corpus& corpus, int64_t parameters) {
  const auto& training = settings.training;
  const auto& model = training.model;
  return fmt::format(
      "GPT: {} layers, width {}, {} heads, context {}, dropout {}: {} parameters.\n"
      "Text: {}, {}.\n"
      "{} steps of {} x {} tokens, AdamW, learning rate {}, seed {}, {} threads.\n",
      model.layers, model.width, model.heads, model.context, model.dropout,
      short_number(static_cast<double>(parameters)), corpus.source,
      format_bytes(static_cast<int64_t>(corpus.bytes.size())), training.steps, training.batch,
      model.context, training.learning_rate, training.seed, at::get_num_threads());
}

std::string budget_remark(const Runs& runs) {
  const auto budget = budget_text(runs);
  return runs.budget.is_smallest
             ? fmt::format("No plan is known for half of eager's peak; the smallest is for {}.\n",
                           budget)
             : fmt::format("The budget of {} is half of eager's peak.\n", budget);
}

int run_all(const Settings& settings) {
  if (settings.threads > 0) at::set_num_threads(settings.threads);
  make_folder(settings.out);
  const auto corpus = read_corpus(
      settings.text.empty() ? torch_package_folder() : std::filesystem::path(settings.text),
      kMaxTextBytes);
  auto head = describe(settings, corpus, parameter_count(*Gpt(settings.training.model)));
  const auto budget = half_of_eager(settings, corpus);
  const auto options = Options().with_name("train_gpt");
  Runs runs{{"eager", settings.training, {}},
            {"compiled", settings.training, options},
            {fmt::format("in {} MiB", budget.bytes / 1_MiB), settings.training,
             Options(options).with_memory_budget(budget.bytes)},
            budget};
  head += budget_remark(runs);
  fmt::print("{}\n", head);

  train(settings, corpus, runs);
  const auto compiled = compare(runs.eager, runs.compiled);
  const auto budgeted = compare(runs.eager, runs.budgeted);
  for (auto* run : runs.all()) measure(settings, corpus, *run);
  const auto results = results_table(settings, runs, compiled, budgeted);
  const auto program = program_table(runs);

  const auto verdict = verdict_on(runs, compiled, budgeted);
  const auto text = results.text() + "\n" + program.text() + "\n" + verdict;
  fmt::print("\n{}", text);

  write_file(settings.out / "loss.svg", loss_chart(runs));
  write_file(settings.out / "memory.svg", memory_chart(runs));
  write_file(settings.out / "report.txt", head + "\n" + text);
  write_file(settings.out / "report.md",
             "# Training a GPT, eager, compiled and within a memory budget\n\n" + head + "\n" +
                 results.markdown() + "\n" + program.markdown() + "\n" + verdict +
                 "\n![loss](loss.svg)\n\n![memory](memory.svg)\n");
  fmt::print("Written to {}: report.txt, report.md, loss.svg, memory.svg\n", settings.out.string());
  return compiled.equal() && budgeted.equal() ? 0 : 1;
}

int run_main(int argc, char** argv) {
  Settings settings;
  auto& training = settings.training;
  const CLI::Range count(int64_t{1}, int64_t{1} << 30);
  const CLI::Range probability(0.0, 0.99);
  CLI::App app(
      "Trains a byte-level GPT eagerly, compiled, and compiled with half the memory, and compares.",
      "train_gpt");
  app.option_defaults()->always_capture_default();
  app.add_option("--steps", training.steps, "training steps")->check(count);
  app.add_option("--layers", training.model.layers, "transformer blocks")->check(count);
  app.add_option("--width", training.model.width, "width of the model")->check(count);
  app.add_option("--heads", training.model.heads, "attention heads")->check(count);
  app.add_option("--context", training.model.context, "bytes in a sequence")->check(count);
  app.add_option("--batch", training.batch, "sequences in a step")->check(count);
  app.add_option("--dropout", training.model.dropout, "probability")->check(probability);
  app.add_option("--lr", training.learning_rate, "learning rate")->check(CLI::NonNegativeNumber);
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
    fmt::print(stderr, "train_gpt: {}\n", error.what());
    return 2;
  }
}

}  // namespace
}  // namespace antegrad::examples

int main(int argc, char** argv) { return antegrad::examples::run_main(argc, argv); }
