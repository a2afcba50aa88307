// Training steps with generated kernels (forward, loss, backward; no optimizer) beside eager and
// beside the same program without them; memory; and the time that kernels take to compile. Kernels
// are kept in a folder of their own, which is empty at the start.

#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <antegrad/antegrad.h>
#include <fmt/format.h>
#include <torch/utils.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <utility>

#include "common/empty_cache.h"
#include "common/gpt12.h"
#include "common/harness.h"
#include "common/lowering_times.h"
#include "common/measure.h"
#include "common/models.h"
#include "common/operator_times.h"

namespace antegrad::bench {
namespace {

using examples::clear_gradients;

constexpr double kMiB = 1 << 20;

// Milliseconds of compilation of the newest program.
template <class Compiled>
double compile_ms(const Compiled& compiled) {
  return compiled.report().programs.back().compile_ms;
}

// The share of the time of eager's operators, without matrix products, convolutions and attention,
// that generated kernels and draws of bools take the place of.
double replaced_share(const std::function<void()>& eager_step, const ProgramReport& program) {
  double all = 0, replaced = 0;
  for (const auto& [operation, ms] : operator_times(eager_step)) {
    if (is_library_call(operation)) continue;
    all += ms;
    if (operation == "aten::bernoulli_") replaced += ms;
  }
  for (const auto& kernel : program.generated_kernels) {
    replaced += kernel.library_microseconds / 1e3;
  }
  return replaced / all;
}

// `other` is a batch of another size.
template <class Model>
void measure(Bench& bench, const std::string& name, Model model,
             std::pair<at::Tensor, at::Tensor> batch, std::pair<at::Tensor, at::Tensor> other,
             int rounds) {
  const auto eager = [&](at::Tensor a, at::Tensor b) { return model->loss(a, b); };
  const auto compiled = [&](Lowering lowering) {
    return compile(model, eager, Options().with_name(name).with_lowering(lowering));
  };
  auto exact = compiled(Lowering::exact);
  auto close = compiled(Lowering::close);
  auto off = compiled(Lowering::off);
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
  const auto eager_peak = peak(eager);
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
    bench.add({name, level + "_peak_ratio_to_eager", found / eager_peak, "", {}, 1.0});
    bench.add({name, level + "_peak_mib", found, "MiB", Peer{"eager", eager_peak}, {}});
    const auto predicted = static_cast<double>(program.predicted_peak_bytes) / kMiB;
    bench.add({name, level + "_predicted_peak_mib", predicted, "MiB", Peer{"measured", found}, {}});
    const auto kernels = static_cast<double>(program.generated_kernels.size());
    bench.add({name, level + "_generated_kernels", kernels, "", {}, {}});
    const auto share = replaced_share([&] { step(eager, batch); }, program);
    bench.add({name, level + "_replaced_share", share, "", {}, {}});
    if (std::getenv("ANTEGRAD_BENCH_KERNELS") != nullptr) fmt::print("{}", kernel_table(program));
  };
  measure_level("exact", exact);
  measure_level("close", close);
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
  const examples::GptConfig config{
      .vocabulary = 512, .layers = 6, .width = 384, .heads = 6, .context = 256};
  measure(bench, "gpt", examples::Gpt(config), tokens(config, 8), tokens(config, 6), 15);
}

void measure_mlp(Bench& bench) {
  torch::manual_seed(0);
  const examples::MlpConfig config;
  const auto rows = [&](int64_t n) {
    return std::pair(at::randn({n, config.width}), at::randn({n, config.width}));
  };
  measure(bench, "mlp", examples::Mlp(config), rows(4096), rows(3000), 15);
}

void measure_cnn(Bench& bench) {
  torch::manual_seed(0);
  const examples::CnnConfig config;
  const auto images = [&](int64_t n) {
    return std::pair(at::randn({n, 3, config.image, config.image}),
                     at::randint(config.classes, {n}, at::kLong));
  };
  measure(bench, "cnn", examples::Cnn(config), images(64), images(48), 45);
}

void measure_gpt12(Bench& bench) {
  torch::manual_seed(0);
  measure(bench, "gpt12", examples::Gpt(gpt12()), tokens(gpt12(), 2), tokens(gpt12(), 3), 9);
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

}  // namespace
}  // namespace antegrad::bench

int main(int argc, char** argv) {
  using namespace antegrad::bench;
  if (argc == 3 && std::string(argv[1]) == kLoweringChild) {
    return run_bench([&] { run_lowering_child(std::atoi(argv[2])); });
  }
  return run_bench([&] {
    Bench bench("lowered", argc, argv);
    measure_compilation(bench);
    const EmptyCache cache;
    measure_gpt(bench);
    measure_mlp(bench);
    measure_cnn(bench);
    measure_gpt12(bench);
  });
}
