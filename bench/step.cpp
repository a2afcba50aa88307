// Training steps of three models (forward, loss, backward; no optimizer), compiled and eager: time
// and peak memory. The models are those for which figures of AOTAutograd are known.

#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <antegrad/antegrad.h>
#include <fmt/format.h>
#include <torch/utils.h>

#include <optional>

#include "common/gpt12.h"
#include "common/harness.h"
#include "common/measure.h"
#include "common/models.h"

namespace antegrad::bench {
namespace {

using examples::clear_gradients;

constexpr double kMiB = 1 << 20;

struct Limits {
  std::optional<double> time, peak;
};

template <class Model>
void measure(Bench& bench, const std::string& name, Model model, const at::Tensor& x,
             const at::Tensor& y, int rounds, Limits limits) {
  const auto eager = [&](at::Tensor a, at::Tensor b) { return model->loss(a, b); };
  auto compiled = compile(model, eager, Options().with_name(name));
  const auto step = [&](auto& function) {
    clear_gradients(*model);
    function(x, y).backward();
  };
  const auto pair = time_pairs(
      name, bench.rounds(rounds), [&] { step(compiled); }, [&] { step(eager); });
  const auto peak = [&](auto& function) {
    clear_gradients(*model);
    return static_cast<double>(examples::measure_memory([&] { return function(x, y); }).peak_bytes);
  };
  const auto compiled_peak = peak(compiled), eager_peak = peak(eager);
  const auto report = compiled.report();
  AG_CHECK(report.eager_calls == 0, "a compiled call ran eagerly");

  bench.add({name, "ratio_to_eager", pair.ratio, "", {}, limits.time});
  bench.add({name, "peak_ratio_to_eager", compiled_peak / eager_peak, "", {}, limits.peak});
  bench.add({name, "step_ms", pair.first_ms, "ms", Peer{"eager", pair.second_ms}, {}});
  bench.add({name, "peak_mib", compiled_peak / kMiB, "MiB", Peer{"eager", eager_peak / kMiB}, {}});
  const auto& program = report.programs.at(0);
  bench.add({name,
             "predicted_peak_mib",
             static_cast<double>(program.predicted_peak_bytes) / kMiB,
             "MiB",
             Peer{"measured", compiled_peak / kMiB},
             {}});
  bench.add({name, "saved_mib", static_cast<double>(program.saved_bytes) / kMiB, "MiB", {}, {}});
}

void measure_gpt(Bench& bench) {
  torch::manual_seed(0);
  const examples::GptConfig config{
      .vocabulary = 512, .layers = 6, .width = 384, .heads = 6, .context = 256};
  const auto tokens = random_tokens(config, /*batch=*/8);
  measure(bench, "gpt", examples::Gpt(config), tokens.inputs, tokens.targets, 15, {1.03, 1.0});
}

void measure_mlp(Bench& bench) {
  torch::manual_seed(0);
  const examples::MlpConfig config;
  measure(bench, "mlp", examples::Mlp(config), at::randn({4096, config.width}),
          at::randn({4096, config.width}), 15, {});
}

void measure_cnn(Bench& bench) {
  torch::manual_seed(0);
  const examples::CnnConfig config;
  measure(bench, "cnn", examples::Cnn(config), at::randn({64, 3, config.image, config.image}),
          at::randint(config.classes, {64}, at::kLong), 75, {});
}

}  // namespace
}  // namespace antegrad::bench

int main(int argc, char** argv) {
  using namespace antegrad::bench;
  return run_bench([&] {
    Bench bench("step", argc, argv);
    measure_gpt(bench);
    measure_mlp(bench);
    measure_cnn(bench);
  });
}
