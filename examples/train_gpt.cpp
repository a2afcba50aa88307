// Trains two byte-level GPTs on real text from the same seed, one eagerly and one compiled by
// antegrad, and compares: losses and parameters must be equal to the bit. Exit status: 0 when they
// are, 1 when they part, 2 when it could not run.

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/ops/equal.h>
#include <antegrad/antegrad.h>
#include <antegrad/charts.h>
#include <fmt/format.h>
#include <torch/optim/adamw.h>
#include <torch/utils.h>

#include <CLI/CLI.hpp>
#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "common/measure.h"
#include "common/models.h"
#include "common/progress.h"
#include "common/table.h"
#include "common/text_data.h"

namespace antegrad::examples {
namespace {

struct Settings {
  GptConfig model{.dropout = 0.1};
  int64_t steps = 250;
  int64_t batch = 8;
  double learning_rate = 1e-3;
  double weight_decay = 0.1;
  uint64_t seed = 1;
  int threads = 0;  // as many as libtorch takes by itself
  std::string text;
  std::filesystem::path out = "out/demo";
};

constexpr size_t kMaxTextBytes = size_t{8} << 20;
constexpr int kMeasuredSteps = 5;

using Loss = std::function<at::Tensor(const at::Tensor&, const at::Tensor&)>;

/// One of the two runs: its model, its optimizer, and libtorch's generator as this run left it.
class Run {
 public:
  Run(const Settings& settings, bool compiled)
      : model_(seeded_model(settings)),
        optimizer_(
            model_->parameters(),
            torch::optim::AdamWOptions(settings.learning_rate).weight_decay(settings.weight_decay)),
        loss_([this](at::Tensor x, at::Tensor y) { return model_->loss(x, y); }),
        compiled_loss_(compile(model_, loss_, Options().with_name("train_gpt"))),
        step_(compiled ? Loss(compiled_loss_) : loss_) {
    generator_state = default_generator().get_state();
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  void train_step(const Batch& batch) {
    default_generator().set_state(generator_state);
    const Stopwatch watch;
    optimizer_.zero_grad();
    const auto loss = step_(batch.inputs, batch.targets);
    loss.backward();
    optimizer_.step();
    losses.push_back(loss.item<double>());
    step_ms.push_back(watch.milliseconds());
    generator_state = default_generator().get_state();
    tokens.add(static_cast<double>(batch.inputs.numel()), step_ms.back() / 1e3);
  }

  StepMemory measure_step(const Batch& batch) {
    clear_gradients(*model_);
    return measure_memory([&] { return step_(batch.inputs, batch.targets); });
  }

  std::vector<at::Tensor> parameters() const { return model_->parameters(); }
  Report report() const { return compiled_loss_.report(); }

  std::vector<double> losses;
  std::vector<double> step_ms;
  at::Tensor generator_state;
  Rate tokens;
  StepMemory memory;  // of a step after the last

 private:
  static at::Generator default_generator() { return at::detail::getDefaultCPUGenerator(); }
  static Gpt seeded_model(const Settings& settings) {
    torch::manual_seed(settings.seed);
    return Gpt(settings.model);
  }

  Gpt model_;
  torch::optim::AdamW optimizer_;
  Loss loss_;
  Compiled<Loss> compiled_loss_;
  Loss step_;
};

/// Step by step in turn, so that whatever else happens on the machine meets both.
void train(const Settings& settings, const Corpus& corpus, Run& eager, Run& compiled) {
  BatchSampler batches(corpus, settings.batch, settings.model.context, settings.seed);
  Progress progress("train", settings.steps);
  for (int64_t i = 0; i < settings.steps; ++i) {
    const auto batch = batches.next();
    eager.train_step(batch);
    compiled.train_step(batch);
    progress.update(i + 1,
                    fmt::format("loss {:.3f}  eager {}, compiled {} tok/s", compiled.losses.back(),
                                short_number(eager.tokens.per_second()),
                                short_number(compiled.tokens.per_second())));
  }
}

/// The quickest of a few steps is the one that other programs on the machine disturbed least.
void measure(const Settings& settings, const Corpus& corpus, Run& run) {
  BatchSampler batches(corpus, settings.batch, settings.model.context, settings.seed);
  const auto batch = batches.next();
  for (int i = 0; i < kMeasuredSteps; ++i) {
    auto memory = run.measure_step(batch);
    if (i == 0 || memory.milliseconds < run.memory.milliseconds) run.memory = std::move(memory);
  }
}

/// What must be equal, and by how much it is not.
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

Comparison compare(const Run& eager, const Run& compiled) {
  Comparison result;
  for (size_t i = 0; i < eager.losses.size(); ++i) {
    const auto a = eager.losses[i], b = compiled.losses[i];
    if (std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b)) continue;
    if (result.losses_that_differ++ == 0) result.first_difference = i + 1;
    const auto difference = std::abs(a - b);  // a NaN stays one: it must not look like 0
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

std::string verdict_on(const Comparison& comparison) {
  if (comparison.equal()) {
    return "Equal to the bit: every loss, all parameters, the generator's state.\n";
  }
  std::string text = "DIFFERENT: the compiled run is not what eager does.";
  if (comparison.losses_that_differ > 0) {
    text += fmt::format(" {} losses differ, the first at step {}.", comparison.losses_that_differ,
                        comparison.first_difference);
  }
  if (comparison.eager_calls > 0) text += " Some calls ran eagerly.";
  return text + "\n";
}

std::string ratio(double compiled, double eager) {
  return eager > 0 ? fmt::format("{:.3f}", compiled / eager) : "";
}

Table results_table(const Settings& settings, const Run& eager, const Run& compiled,
                    const Comparison& comparison) {
  Table table({"", "eager", "compiled", "compiled / eager"});
  const auto tokens = static_cast<double>(settings.batch * settings.model.context);
  const auto a = median(eager.step_ms), b = median(compiled.step_ms);
  table.add({"final loss", fmt::format("{:.6f}", eager.losses.back()),
             fmt::format("{:.6f}", compiled.losses.back())});
  table.add({"largest difference of losses", "",
             fmt::format("{:g}", comparison.largest_loss_difference)});
  table.add(
      {"parameters that differ", "",
       fmt::format("{} of {}", comparison.parameters_that_differ, eager.parameters().size())});
  table.add({"generator state", "", comparison.generators_equal ? "equal" : "differs"});
  table.add(
      {"step, median", fmt::format("{:.2f} ms", a), fmt::format("{:.2f} ms", b), ratio(b, a)});
  table.add(
      {"tokens/s", short_number(1e3 * tokens / a), short_number(1e3 * tokens / b), ratio(a, b)});
  const auto bytes = [&](const char* title, int64_t of_eager, int64_t of_compiled) {
    table.add({title, format_bytes(of_eager), format_bytes(of_compiled),
               ratio(static_cast<double>(of_compiled), static_cast<double>(of_eager))});
  };
  bytes("peak memory of a step, measured", eager.memory.peak_bytes, compiled.memory.peak_bytes);
  bytes("held between forward and backward", eager.memory.held_bytes, compiled.memory.held_bytes);
  return table;
}

Table program_table(const Report& report) {
  Table table({"compiled program", ""});
  for (const auto& program : report.programs) {
    table.add({"capture", fmt::format("{:.1f} ms", program.capture_ms)});
    table.add({"passes, partition, programs", fmt::format("{:.1f} ms", program.compile_ms)});
    table.add({"nodes: joint", std::to_string(program.joint_nodes)});
    table.add({"nodes: forward", std::to_string(program.forward_nodes)});
    table.add({"nodes: backward", std::to_string(program.backward_nodes)});
    table.add({"parameters and buffers found", std::to_string(program.lifted_tensors)});
    table.add({"tensors saved for backward", std::to_string(program.saved_tensors)});
    table.add({"bytes saved for backward", format_bytes(program.saved_bytes)});
    table.add({"predicted peak", format_bytes(program.predicted_peak_bytes)});
    table.add({"real kernels run to learn shapes", std::to_string(program.real_kernels)});
  }
  table.add({"compiled calls", std::to_string(report.compiled_calls)});
  table.add({"eager calls", std::to_string(report.eager_calls)});
  return table;
}

[[noreturn]] void fail_to_write(const std::filesystem::path& path) {
  throw InputError(ErrorText{"a folder to write to",
                             "'" + path.string() + "', which cannot be made",
                             "give another folder with --out"});
}

void write_file(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  if (!file.flush()) fail_to_write(path);
}

std::string loss_chart(const Run& eager, const Run& compiled) {
  std::vector<double> steps(eager.losses.size());
  std::iota(steps.begin(), steps.end(), 1);
  return line_chart_svg(
      {{"eager", steps, eager.losses}, {"compiled", steps, compiled.losses, /*dashed=*/true}},
      {"Training loss", "step", "loss"});
}

std::string memory_chart(const Run& eager, const Run& compiled) {
  const auto series = [](const char* name, const StepMemory& memory, bool dashed) {
    return MemorySeries{name, memory.timeline, dashed, memory.backward_ms};
  };
  return memory_chart_svg(
      {series("eager", eager.memory, false), series("compiled", compiled.memory, true)},
      "Live memory of one training step, measured");
}

std::string describe(const Settings& settings, const Corpus& corpus, int64_t parameters) {
  const auto& model = settings.model;
  return fmt::format(
      "GPT: {} layers, width {}, {} heads, context {}, dropout {}: {} parameters.\n"
      "Text: {}, {}.\n"
      "{} steps of {} x {} tokens, AdamW, learning rate {}, seed {}, {} threads.\n",
      model.layers, model.width, model.heads, model.context, model.dropout,
      short_number(static_cast<double>(parameters)), corpus.source,
      format_bytes(static_cast<int64_t>(corpus.bytes.size())), settings.steps, settings.batch,
      model.context, settings.learning_rate, settings.seed, at::get_num_threads());
}

int run_all(const Settings& settings) {
  if (settings.threads > 0) at::set_num_threads(settings.threads);
  std::error_code error;
  std::filesystem::create_directories(settings.out, error);
  if (error) fail_to_write(settings.out);
  const auto corpus = read_corpus(
      settings.text.empty() ? torch_package_folder() : std::filesystem::path(settings.text),
      kMaxTextBytes);
  const auto head = describe(settings, corpus, parameter_count(*Gpt(settings.model)));
  fmt::print("{}\n", head);

  Run eager(settings, /*compiled=*/false), compiled(settings, /*compiled=*/true);
  train(settings, corpus, eager, compiled);
  const auto comparison = compare(eager, compiled);
  measure(settings, corpus, eager);
  measure(settings, corpus, compiled);
  const auto results = results_table(settings, eager, compiled, comparison);
  const auto program = program_table(compiled.report());

  const auto verdict = verdict_on(comparison);
  const auto text = results.text() + "\n" + program.text() + "\n" + verdict;
  fmt::print("\n{}", text);

  write_file(settings.out / "loss.svg", loss_chart(eager, compiled));
  write_file(settings.out / "memory.svg", memory_chart(eager, compiled));
  write_file(settings.out / "report.txt", head + "\n" + text);
  write_file(settings.out / "report.md", "# Training a GPT, eager and compiled\n\n" + head + "\n" +
                                             results.markdown() + "\n" + program.markdown() + "\n" +
                                             verdict +
                                             "\n![loss](loss.svg)\n\n![memory](memory.svg)\n");
  fmt::print("Written to {}: report.txt, report.md, loss.svg, memory.svg\n", settings.out.string());
  return comparison.equal() ? 0 : 1;
}

int run_main(int argc, char** argv) {
  Settings settings;
  const CLI::Range count(int64_t{1}, int64_t{1} << 30);
  const CLI::Range probability(0.0, 0.99);
  CLI::App app("Trains a byte-level GPT eagerly and compiled, and compares the two.", "train_gpt");
  app.option_defaults()->always_capture_default();
  app.add_option("--steps", settings.steps, "training steps")->check(count);
  app.add_option("--layers", settings.model.layers, "transformer blocks")->check(count);
  app.add_option("--width", settings.model.width, "width of the model")->check(count);
  app.add_option("--heads", settings.model.heads, "attention heads")->check(count);
  app.add_option("--context", settings.model.context, "bytes in a sequence")->check(count);
  app.add_option("--batch", settings.batch, "sequences in a step")->check(count);
  app.add_option("--dropout", settings.model.dropout, "probability")->check(probability);
  app.add_option("--lr", settings.learning_rate, "learning rate")->check(CLI::NonNegativeNumber);
  app.add_option("--seed", settings.seed, "of weights, dropout and batches");
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
