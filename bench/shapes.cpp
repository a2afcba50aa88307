// Calls with many sizes: the cost of a new size, the memory that its program keeps, the time to
// find a program among many, and the total time of steps with random sizes. Peers: eager, and
// torch.compile with dynamic shapes.

#include <ATen/Parallel.h>
#include <antegrad/antegrad.h>
#include <fmt/format.h>
#include <torch/utils.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/child.h"
#include "common/gpt12.h"
#include "common/harness.h"
#include "common/varied.h"

namespace antegrad::bench {
namespace {

using examples::GptConfig;
using Sizes = std::pair<int64_t, int64_t>;  // of a batch: of a text, rows and length

Tokens tokens_of(const GptConfig& config, const Sizes& sizes) {
  auto shorter = config;
  shorter.context = sizes.second;
  return random_tokens(shorter, sizes.first);
}

// Without generated kernels: bench_lowered times what these add.
auto compile_loss(const examples::Gpt& model) {
  const auto gpt = model.ptr();
  return compile(
      gpt,
      [gpt](const at::Tensor& inputs, const at::Tensor& targets) {
        return gpt->loss(inputs, targets);
      },
      Options().with_lowering(Lowering::off));
}

// Sizes after the first two, whose programs fill tables and have no other to share with.
void measure_new_sizes(Bench& bench) {
  const auto config = gpt12();
  torch::manual_seed(0);
  auto step = compile_loss(examples::Gpt(config));
  const auto warm_up = [&](int64_t length) {
    const auto tokens = tokens_of(config, {kBatch, length});
    const examples::Stopwatch watch;
    step.warmup(tokens.inputs, tokens.targets);
    return watch.milliseconds();
  };
  warm_up(128);
  warm_up(127);
  const auto before = heap_bytes();
  const int count = bench.rounds(50);
  std::vector<double> total, ratio;
  for (int i = 0; i < count; ++i) {
    const auto ms = warm_up(126 - i);
    total.push_back(ms);
    ratio.push_back(ms / step.report().programs.back().capture_ms);
  }
  const auto kept = static_cast<double>(heap_bytes() - before) / count / 1024;
  AG_CHECK(step.report().eager_calls == 0, "a call ran eagerly");
  bench.add({"gpt12", "new_size_ms", examples::median(total), "ms", {}, {}});
  bench.add({"gpt12", "new_size_to_capture", examples::median(ratio), "", {}, 1.3});
  bench.add({"gpt12", "kept_kib_per_size", kept, "KiB", {}, 200});
}

// A warm-up with sizes that have a program does nothing but find it.
void measure_find(Bench& bench) {
  const auto config = gpt12();
  torch::manual_seed(0);
  const examples::Gpt model(config);
  auto one = compile_loss(model), many = compile_loss(model);
  const auto tokens = tokens_of(config, {kBatch, 64});
  one.warmup(tokens.inputs, tokens.targets);
  for (int64_t i = 0; i < 256; ++i) {
    const auto other = tokens_of(config, {1 + i / 64, 1 + i % 64});
    many.warmup(other.inputs, other.targets);
  }
  AG_CHECK(many.report().programs.size() == 256, "a program for each size");
  const auto finds = [&](auto& step) {
    for (int i = 0; i < 1000; ++i) step.warmup(tokens.inputs, tokens.targets);
  };
  const auto pair = time_pairs(
      "one among 256 programs", bench.rounds(200), [&] { finds(many); }, [&] { finds(one); });
  bench.add({"find_256", "us", pair.first_ms, "us", {}, {}});
  bench.add({"find_256", "ratio", pair.ratio, "", {}, 1.5});
}

std::vector<Sizes> random_sizes(const Sizes& most, int count) {
  std::mt19937 random(0);
  std::vector<Sizes> sizes;
  for (int i = 0; i < count; ++i) {
    const auto from_one = [&](int64_t most) { return 1 + static_cast<int64_t>(random() % most); };
    const auto first = from_one(most.first);
    sizes.emplace_back(first, from_one(most.second));
  }
  return sizes;
}

// The first steps of a training loop whose batches have these sizes. Eager runs in turns.
template <class Model, class Loss, class MakeBatch>
void measure_steps(Bench& bench, const char* name, Model model, const std::vector<Sizes>& sizes,
                   double limit, const Loss& loss, const MakeBatch& make_batch) {
  auto step =
      compile(model.ptr(), [model, loss](const Batch& batch) { return loss(model, batch); });
  double compiled_s = 0, eager_s = 0;
  for (const auto& [first, second] : sizes) {
    const auto batch = make_batch(first, second);
    const auto seconds = [&](auto&& call) {
      examples::clear_gradients(*model);
      const examples::Stopwatch watch;
      call(batch).backward();
      return watch.milliseconds() / 1e3;
    };
    eager_s += seconds([&](const Batch& batch) { return loss(model, batch); });
    compiled_s += seconds(step);
  }
  const auto report = step.report();
  bench.add({name, "total_s", compiled_s, "s", Peer{"eager", eager_s}, limit * eager_s});
  bench.add({name, "eager_calls", static_cast<double>(report.eager_calls), "", {}, 0});
  bench.add({name, "programs", static_cast<double>(report.programs.size()), "", {}, {}});

  for (const char* backend : {"aot_eager", "inductor"}) {
    note(fmt::format("{}: torch.compile, {}, dynamic: minutes", name, backend));
    std::vector<std::string> arguments = {backend, name, std::to_string(at::get_num_threads())};
    for (const auto& [first, second] : sizes) {
      arguments.push_back(fmt::format("{}x{}", first, second));
    }
    const auto theirs = run_peer("shapes.py", arguments);
    if (!theirs) continue;
    // Both processes run eager too, so that what is compared is relative to it.
    const auto ratio = theirs->at("total_s").get<double>() / theirs->at("eager_s").get<double>();
    bench.add({name,
               fmt::format("total_to_eager_and_{}", backend),
               compiled_s / eager_s,
               "",
               Peer{fmt::format("torch.compile {} dynamic", backend), ratio},
               {}});
  }
}

void measure_gpt(Bench& bench, int steps) {
  const GptConfig config{.vocabulary = 1000, .layers = 4, .width = 256, .heads = 4, .context = 256};
  torch::manual_seed(0);
  measure_steps(
      bench, "gpt", examples::Gpt(config), random_sizes({8, config.context}, steps), 1.15,
      [](examples::Gpt model, const Batch& batch) { return model->loss(batch[0], batch[1]); },
      [&](int64_t rows, int64_t length) {
        const auto tokens = tokens_of(config, {rows, length});
        return Batch{tokens.inputs, tokens.targets};
      });
}

template <class Model>
void measure_varied(Bench& bench, const char* name, const std::vector<Sizes>& sizes, double limit) {
  torch::manual_seed(0);
  Model model;
  measure_steps(
      bench, name, model, sizes, limit,
      [](Model model, const Batch& batch) { return model->loss(batch); },
      [&](int64_t first, int64_t second) { return model->batch(first, second); });
}

void run(Bench& bench) {
  measure_new_sizes(bench);
  measure_find(bench);
  const auto steps = bench.rounds(200);
  measure_gpt(bench, steps);
  measure_varied<Classifier>(bench, "classifier", random_sizes({8, 256}, steps), 1.15);
  measure_varied<Boxes>(bench, "boxes", std::vector<Sizes>(steps, {4, 96}), 1.5);
  measure_varied<Gnn>(bench, "gnn", random_sizes({500, 2000}, steps), 1.5);
}

}  // namespace
}  // namespace antegrad::bench

int main(int argc, char** argv) {
  return antegrad::bench::run_bench("shapes", argc, argv, antegrad::bench::run);
}
