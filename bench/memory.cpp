// What becomes of a step's memory between steps (Options::kept_memory): time, page faults and the
// growth of the resident set of a training step (forward, loss, backward; no optimizer). How much
// of its heap glibc gives back differs from process to process, so each variant runs in several
// processes of its own, in turns.

#include <ATen/Parallel.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <antegrad/antegrad.h>
#include <antegrad/memory.h>
#include <fmt/format.h>
#include <malloc.h>
#include <sys/resource.h>
#include <torch/utils.h>

#include <chrono>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "common/child.h"
#include "common/gpt12.h"
#include "common/harness.h"
#include "common/measure.h"
#include "common/models.h"

namespace antegrad::bench {
namespace {

using examples::clear_gradients;

constexpr const char* kChild = "--step";
constexpr double kMiB = 1 << 20;

// In kB, from the system.
double status(const std::string& field) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(field + ":")) return std::stod(line.substr(field.size() + 1)) * 1024;
  }
  return 0;
}

int64_t page_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

// The most by which a step makes the resident set grow.
template <class Step>
double resident_growth(const Step& step) {
  release_kept_memory();
  malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << "5";  // the peak starts anew
  const double before = status("VmRSS");
  step();
  return status("VmHWM") - before;
}

template <class Model>
nlohmann::json measured(Model model, const at::Tensor& x, const at::Tensor& y,
                        const std::string& variant) {
  const auto loss = [&](at::Tensor a, at::Tensor b) { return model->loss(a, b); };
  Options options;
  if (variant == "free") options.with_kept_memory(KeptMemory::free);
  if (variant == "trim") options.with_kept_memory(KeptMemory::trim);
  auto compiled = compile(model, loss, options);
  const auto step = [&] {
    clear_gradients(*model);
    (variant == "eager" ? loss(x, y) : compiled(x, y)).backward();
  };
  for (int i = 0; i < 3; ++i) step();
  std::vector<double> ms, faults;
  for (int i = 0; i < 10; ++i) {
    const auto before = page_faults();
    const auto start = std::chrono::steady_clock::now();
    step();
    const std::chrono::duration<double, std::milli> spent =
        std::chrono::steady_clock::now() - start;
    ms.push_back(spent.count());
    faults.push_back(static_cast<double>(page_faults() - before));
  }
  clear_gradients(*model);
  return {{"step_ms", examples::median(ms)},
          {"page_faults", examples::median(faults)},
          {"resident_mib", resident_growth(step) / kMiB}};
}

nlohmann::json measured_gpt(const std::string& variant) {
  const examples::GptConfig config{
      .vocabulary = 512, .layers = 6, .width = 384, .heads = 6, .context = 256};
  const auto tokens = random_tokens(config, 8);
  return measured(examples::Gpt(config), tokens.inputs, tokens.targets, variant);
}

nlohmann::json measured_mlp(const std::string& variant) {
  const examples::MlpConfig config;
  const auto rows = [&] { return at::randn({4096, config.width}); };
  return measured(examples::Mlp(config), rows(), rows(), variant);
}

const std::map<std::string, nlohmann::json (*)(const std::string&)> kCases = {
    {"gpt", measured_gpt}, {"mlp", measured_mlp}};

void run(Bench& bench) {
  const std::vector<std::string> variants = {"keep", "trim", "free", "eager"};
  for (const auto& [name, unused] : kCases) {
    if (!bench.wants(name)) continue;
    std::map<std::string, std::map<std::string, std::vector<double>>> found;  // by metric, variant
    const int rounds = bench.rounds(5);
    for (int round = 0; round < rounds; ++round) {
      note(fmt::format("{}: processes of each kind, {} of {}", name, round + 1, rounds));
      for (const auto& variant : variants) {
        const auto of_child =
            run_self({kChild, name, variant, std::to_string(at::get_num_threads())});
        for (const auto& [metric, value] : of_child.items()) {
          found[metric][variant].push_back(value.get<double>());
        }
      }
    }
    const std::map<std::string, std::string> units = {
        {"step_ms", "ms"}, {"page_faults", ""}, {"resident_mib", "MiB"}};
    for (const auto& [metric, unit] : units) {
      const auto& values = found[metric];
      const double eager = examples::median(values.at("eager"));
      for (const auto& variant : {"keep", "trim", "free"}) {
        bench.add({name,
                   fmt::format("{}_{}", variant, metric),
                   examples::median(values.at(variant)),
                   unit,
                   Peer{"eager", eager},
                   {}});
      }
    }
  }
}

}  // namespace
}  // namespace antegrad::bench

int main(int argc, char** argv) {
  using namespace antegrad::bench;
  if (argc == 5 && argv[1] == std::string(kChild)) {
    return run_bench([&] {
      at::set_num_threads(std::stoi(argv[4]));
      torch::manual_seed(0);
      fmt::print("{}\n", kCases.at(argv[2])(argv[3]).dump());
    });
  }
  return run_bench("memory", argc, argv, run);
}
