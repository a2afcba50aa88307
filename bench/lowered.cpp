// Training steps with generated kernels (forward, loss, backward; no optimizer) beside eager, the
// same program without them, and Inductor; memory; and the time that kernels take to compile.
// Kernels are kept in a folder of their own, which is empty at the start.

#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <antegrad/antegrad.h>
#include <fmt/format.h>
#include <torch/utils.h>

#include <cmath>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "common/child.h"
#include "common/empty_cache.h"
#include "common/gpt12.h"
#include "common/harness.h"
#include "common/lowering_times.h"
#include "common/lstm.h"
#include "common/measure.h"
#include "common/models.h"
#include "common/operator_times.h"
#include "common/resnet50.h"
#include "common/vit.h"

namespace antegrad::bench {
namespace {

using examples::clear_gradients;

constexpr double kMiB = 1 << 20;
constexpr int kTimedSteps = 5;
constexpr examples::GptConfig kGpt{
    .vocabulary = 512, .layers = 6, .width = 384, .heads = 6, .context = 256};

// Milliseconds of compilation of the newest program.
template <class Compiled>
double compile_ms(const Compiled& compiled) {
  return compiled.report().programs.back().compile_ms;
}

// The share of the time of eager's operators, without matrix products, convolutions and attention,
// that generated kernels and draws of bools take the place of.
double replaced_share(const OperatorTimes& eager, const ProgramReport& program) {
  const auto draws = eager.find("aten::bernoulli_");
  double replaced = draws == eager.end() ? 0 : draws->second.ms;
  for (const auto& kernel : program.generated_kernels) {
    replaced += kernel.library_microseconds / 1e3;
  }
  return replaced / outside_library_calls(eager);
}

// `other` is a batch of another size, `share` the memory budget of some steps, of eager's peak.
// `words` are those of the model for the peer.
template <class Model>
void measure(Bench& bench, const std::string& name, Model model,
             std::pair<at::Tensor, at::Tensor> batch, std::pair<at::Tensor, at::Tensor> other,
             double share, int rounds, const std::vector<std::string>& words) {
  const auto eager = [&](at::Tensor a, at::Tensor b) { return model->loss(a, b); };
  const auto compiled = [&](Lowering lowering, Options options = {}) {
    return compile(model, eager, options.with_name(name).with_lowering(lowering));
  };
  auto exact = compiled(Lowering::exact);
  auto close = compiled(Lowering::close);
  auto off = compiled(Lowering::off);
  auto priced = compiled(Lowering::exact, Options().with_partition(Partitioner::priced));
  const auto step = [&](auto& function, const auto& on) {
    clear_gradients(*model);
    function(on.first, on.second).backward();
  };
  step(exact, batch);
  const auto cold = compile_ms(exact);
  step(exact, other);
  const auto new_size = compile_ms(exact);
  const auto peak = [&](auto& function) {
    clear_gradients(*model);
    const auto run = [&] { return function(batch.first, batch.second); };
    return static_cast<double>(examples::measure_memory(run).peak_bytes) / kMiB;
  };
  step(close, batch);
  step(priced, batch);
  const auto eager_peak = peak(eager);
  const auto budget = Options().with_memory_budget(std::llround(share * eager_peak * kMiB));
  auto exact_in_budget = compiled(Lowering::exact, budget);
  auto close_in_budget = compiled(Lowering::close, budget);
  step(exact_in_budget, batch);
  step(close_in_budget, batch);
  PeerProcess peer("steps.py", words);
  const auto inductor = peer.ask("compile inductor none");
  const auto measure_level = [&](const std::string& level, auto& function) {
    const auto beside_eager = time_pairs(
        name, bench.rounds(rounds), [&] { step(function, batch); }, [&] { step(eager, batch); });
    const auto beside_off = time_pairs(
        name, bench.rounds(rounds), [&] { step(function, batch); }, [&] { step(off, batch); });
    const auto found = peak(function);
    const auto report = function.report();
    AG_CHECK(report.eager_calls == 0, "a compiled call ran eagerly");
    const auto& program = report.programs.at(0);
    AG_CHECK(program.lowering_failure.empty(), program.lowering_failure);
    bench.add({name, level + "_ratio_to_eager", beside_eager.ratio, "", {}, {}});
    const auto add_step = [&](double ms, const char* peer, double peer_ms) {
      bench.add({name, level + "_step_ms", ms, "ms", Peer{peer, peer_ms}, {}});
    };
    add_step(beside_eager.first_ms, "eager", beside_eager.second_ms);
    add_step(beside_off.first_ms, "lowering=off", beside_off.second_ms);
    const auto turns = peer.time_turns(name, bench.rounds(rounds), [&] { step(function, batch); });
    if (turns) {
      add_step(turns->first_ms, "inductor", turns->second_ms);
      bench.add({name, level + "_ratio_to_inductor", turns->ratio, "", {}, {}});
    }
    bench.add({name, level + "_peak_ratio_to_eager", found / eager_peak, "", {}, 1.0});
    bench.add({name, level + "_peak_mib", found, "MiB", Peer{"eager", eager_peak}, {}});
    if (inductor) {
      const auto theirs = inductor->at("peak_mib").template get<double>();
      bench.add({name, level + "_peak_mib", found, "MiB", Peer{"inductor", theirs}, {}});
    }
    const auto predicted = static_cast<double>(program.predicted_peak_bytes) / kMiB;
    bench.add({name, level + "_predicted_peak_mib", predicted, "MiB", Peer{"measured", found}, {}});
    const auto kernels = static_cast<double>(program.generated_kernels.size());
    bench.add({name, level + "_generated_kernels", kernels, "", {}, {}});
    const auto times = operator_times([&] { step(eager, batch); }, kTimedSteps);
    bench.add({name, level + "_replaced_share", replaced_share(times, program), "", {}, {}});
    const auto left = operator_times([&] { step(function, batch); }, kTimedSteps);
    const auto left_share = outside_library_calls(left) / outside_library_calls(times);
    bench.add({name, level + "_left_share", left_share, "", {}, {}});
    if (std::getenv("ANTEGRAD_BENCH_KERNELS") == nullptr) return;
    for (const auto& [reason, nodes] : program.not_generated) {
      fmt::print("{:5} {}\n", nodes, reason);
    }
    fmt::print("{}{}", kernel_table(program), operator_table(times, left));
  };
  measure_level("exact", exact);
  measure_level("close", close);
  measure_level("exact_priced", priced);
  measure_level("exact_in_budget", exact_in_budget);
  measure_level("close_in_budget", close_in_budget);
  if (name == "gpt12") return;  // measure_compilation()
  bench.add({name, "cold_compile_s", cold / 1e3, "s", {}, {}});
  bench.add({name, "new_size_ms", new_size, "ms", {}, {}});
}

std::pair<at::Tensor, at::Tensor> tokens(const examples::GptConfig& config, int64_t batch) {
  auto [inputs, targets] = random_tokens(config, batch);
  return {inputs, targets};
}

void measure_gpt(Bench& bench) {
  torch::manual_seed(0);
  measure(bench, "gpt", examples::Gpt(kGpt), tokens(kGpt, 8), tokens(kGpt, 6), 0.71, 15,
          peer_words(kGpt, 8));
}

void measure_gpt_bf16(Bench& bench) {
  torch::manual_seed(0);
  examples::Gpt model(kGpt);
  model->to(at::kBFloat16);
  auto words = peer_words(kGpt, 8);
  words.emplace_back("bf16");
  measure(bench, "gpt_bf16", model, tokens(kGpt, 8), tokens(kGpt, 6), 0.71, 15, words);
}

void measure_mlp(Bench& bench) {
  torch::manual_seed(0);
  const examples::MlpConfig config;
  const auto rows = [&](int64_t n) {
    return std::pair(at::randn({n, config.width}), at::randn({n, config.width}));
  };
  auto words = peer_words("mlp", {4096, config.layers, config.width});
  words.push_back(fmt::format("{}", config.dropout));
  measure(bench, "mlp", examples::Mlp(config), rows(4096), rows(3000), 0.43, 15, words);
}

std::pair<at::Tensor, at::Tensor> images(int64_t count, int64_t size, int64_t classes) {
  return {at::randn({count, 3, size, size}), at::randint(classes, {count}, at::kLong)};
}

void measure_cnn(Bench& bench) {
  torch::manual_seed(0);
  const examples::CnnConfig config;
  const auto batch = [&](int64_t n) { return images(n, config.image, config.classes); };
  std::vector<int64_t> shape = {64, config.image, config.classes};
  shape.insert(shape.end(), config.channels.begin(), config.channels.end());
  measure(bench, "cnn", examples::Cnn(config), batch(64), batch(48), 0.63, 45,
          peer_words("cnn", shape));
}

void measure_vit(Bench& bench) {
  torch::manual_seed(0);
  const examples::VitConfig config;
  const auto batch = [&](int64_t n) { return images(n, config.image, config.classes); };
  measure(bench, "vit", examples::Vit(config), batch(32), batch(24), 0.7, 15,
          peer_words("vit", {32, config.image, config.classes, config.patch, config.layers,
                             config.width, config.heads}));
}

void measure_resnet(Bench& bench) {
  torch::manual_seed(0);
  const auto batch = [](int64_t n) { return images(n, 64, ResNet50Impl::kClasses); };
  measure(bench, "resnet", ResNet50(), batch(8), batch(6), 0.85, 9,
          peer_words("resnet50", {8, 64}));
}

void measure_lstm(Bench& bench) {
  torch::manual_seed(0);
  const LstmConfig config;
  const auto batch = [&](int64_t n) {
    const auto draw = [&] { return at::randint(config.vocabulary, {n, config.steps}, at::kLong); };
    return std::pair(draw(), draw());
  };
  measure(bench, "lstm", Lstm(config), batch(64), batch(48), 0.84, 15,
          peer_words("lstm", {64, config.vocabulary, config.width, config.steps}));
}

void measure_gpt12(Bench& bench) {
  torch::manual_seed(0);
  measure(bench, "gpt12", examples::Gpt(gpt12()), tokens(gpt12(), 2), tokens(gpt12(), 3), 1.01, 9,
          peer_words(gpt12(), 2));
}

// In processes of their own, before this one makes kernels.
void measure_compilation(Bench& bench) {
  const auto times = lowering_times(bench.rounds(5));
  bench.add({"gpt12", "cold_compile_s", times.cold_ms / 1e3, "s", {}, 1});
  bench.add({"gpt12", "new_size_ms", times.new_size_ms, "ms", {}, {}});
  const auto files = static_cast<double>(times.new_size_files);
  bench.add({"gpt12", "new_size_compiled_files", files, "", {}, 0});
  bench.add({"gpt12", "warm_ms", times.warm_ms, "ms", {}, 50});
}

constexpr std::pair<const char*, void (*)(Bench&)> kCases[] = {
    {"gpt", measure_gpt},   {"gpt_bf16", measure_gpt_bf16}, {"mlp", measure_mlp},
    {"cnn", measure_cnn},   {"vit", measure_vit},           {"resnet", measure_resnet},
    {"lstm", measure_lstm}, {"gpt12", measure_gpt12},
};

}  // namespace
}  // namespace antegrad::bench

int main(int argc, char** argv) {
  using namespace antegrad::bench;
  if (argc == 3 && std::string(argv[1]) == kLoweringChild) {
    return run_bench([&] { run_lowering_child(std::atoi(argv[2])); });
  }
  return run_bench([&] {
    Bench bench("lowered", argc, argv);
    if (bench.wants("gpt12")) measure_compilation(bench);
    const EmptyCache cache;
    for (const auto& [name, measure] : kCases) {
      if (bench.wants(name)) measure(bench);
    }
  });
}
