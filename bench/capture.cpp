// The time to capture a GPT with its backward: in fresh processes, and the increase per node. Peer:
// torch.compile without code generation.

#include <ATen/Parallel.h>
#include <antegrad/antegrad.h>
#include <fmt/format.h>
#include <torch/utils.h>

#include <functional>

#include "common/child.h"
#include "common/gpt12.h"
#include "common/harness.h"
#include "common/measure.h"

namespace antegrad::bench {
namespace {

using examples::GptConfig;
using nlohmann::json;

// Measurements of one model in a fresh process. The first call does the same as a user's: capture,
// compile and run the forward. Without generated kernels, as in AOTAutograd; bench_lowered times
// these.
json measure_cold(const GptConfig& config) {
  torch::manual_seed(0);
  examples::Gpt model(config);
  const auto tokens = random_tokens(config, kBatch);
  auto loss = compile(
      model, [&](at::Tensor x, at::Tensor y) { return model->loss(x, y); },
      Options().with_lowering(Lowering::off));
  const auto forward_ms = [&] {
    const examples::Stopwatch watch;
    loss(tokens.inputs, tokens.targets);
    return watch.milliseconds();
  };
  const auto first_ms = forward_ms();
  const auto later_ms = std::min(forward_ms(), forward_ms());
  const auto cold = loss.report().programs.at(0);
  loss.reset();
  loss.warmup(tokens.inputs, tokens.targets);
  const auto warm = loss.report().programs.at(0);
  return {{"capture_ms", cold.capture_ms},        {"compile_ms", cold.compile_ms},
          {"first_call_ms", first_ms - later_ms}, {"warm_capture_ms", warm.capture_ms},
          {"warm_compile_ms", warm.compile_ms},   {"joint_nodes", cold.joint_nodes},
          {"real_kernels", cold.real_kernels},    {"meta_kernels", cold.meta_kernels}};
}

// The child process: this program with --cold and the words of peer_arguments(). Prints one JSON
// object.
int run_cold(char** arguments) {
  const auto number = [&](int i) { return std::stoll(arguments[i]); };
  at::set_num_threads(static_cast<int>(number(0)));
  const GptConfig config{.vocabulary = number(1),
                         .layers = number(2),
                         .width = number(3),
                         .heads = number(4),
                         .context = number(5)};
  return run_bench([&] { fmt::print("{}\n", measure_cold(config).dump()); });
}

// Medians over fresh processes, by key.
class ColdRuns {
 public:
  ColdRuns(const std::string& what, const GptConfig& config, int processes) {
    auto arguments = peer_arguments(config);
    arguments.insert(arguments.begin(), "--cold");
    for (int i = 0; i < processes; ++i) {
      note(fmt::format("{}: process {} of {}", what, i + 1, processes));
      runs_.push_back(run_self(arguments));
    }
  }

  double operator()(const char* key) const {
    std::vector<double> values;
    for (const auto& run : runs_) values.push_back(run.at(key).get<double>());
    return examples::median(values);
  }

 private:
  std::vector<json> runs_;
};

void measure_gpt12(Bench& bench) {
  const auto config = gpt12();
  const ColdRuns ours("gpt12", config, bench.rounds(9));
  note("gpt12: torch.compile, about ten seconds");
  const auto theirs = run_peer("capture.py", peer_arguments(config));
  const auto peer = [&](const char* name, const char* key) -> std::optional<Peer> {
    if (!theirs) return std::nullopt;
    return Peer{name, theirs->at(key).get<double>()};
  };
  const std::string name = "gpt12";
  bench.add(
      {name, "capture_ms", ours("capture_ms"), "ms", peer("AOTAutograd trace", "trace_ms"), 20});
  bench.add({name, "compile_ms", ours("compile_ms"), "ms", {}, {}});
  bench.add({name,
             "first_call_ms",
             ours("first_call_ms"),
             "ms",
             peer("torch.compile aot_eager", "first_call_ms"),
             {}});
  bench.add({name, "warm_capture_ms", ours("warm_capture_ms"), "ms", {}, {}});
  bench.add({name, "warm_compile_ms", ours("warm_compile_ms"), "ms", {}, {}});
  bench.add({name, "joint_nodes", ours("joint_nodes"), "", {}, {}});
  bench.add({name, "real_kernel_fallbacks", ours("real_kernels"), "", {}, 0});
  bench.add({name, "meta_kernel_fallbacks", ours("meta_kernels"), "", {}, {}});
}

// Narrow layers: only the number of nodes matters, and 120 layers must fit in memory.
void measure_slope(Bench& bench) {
  const auto config = [](int64_t layers) {
    return GptConfig{.vocabulary = 1000, .layers = layers, .width = 64, .heads = 4, .context = 32};
  };
  const auto processes = bench.rounds(5);
  const ColdRuns few("12 layers", config(12), processes);
  const ColdRuns many("120 layers", config(120), processes);
  const auto nodes = many("joint_nodes") - few("joint_nodes");
  const auto slope = [&](const char* key) { return 1e3 * (many(key) - few(key)) / nodes; };
  bench.add({"slope", "us_per_node", slope("capture_ms"), "us", {}, 10});
  bench.add({"slope", "compile_us_per_node", slope("compile_ms"), "us", {}, {}});
  bench.add({"slope", "nodes_of_120_layers", many("joint_nodes"), "", {}, {}});
}

}  // namespace
}  // namespace antegrad::bench

int main(int argc, char** argv) {
  using namespace antegrad::bench;
  if (argc == 9 && std::string(argv[1]) == "--cold") return run_cold(argv + 2);
  return run_bench([&] {
    Bench bench("capture", argc, argv);
    measure_gpt12(bench);
    measure_slope(bench);
  });
}
