// Training steps on a GPU, without generated kernels, with exact and close ones, these as CUDA
// graphs and within a memory budget, in turns with eager mode and with Inductor: time, and the peak
// of the step. bfloat16. ANTEGRAD_BENCH_KERNELS lists the kernels.
//
//   lowered_cuda/<case>/close_first_call_{cold,warm}_ms
//     to the end of the first step of a process, from the call of compile() on: without anything on
//     disk, and with what an earlier process left there. Peer: eager's first step
//   lowered_cuda/<case>/close_compile_{cold,warm}_ms
//     compiling, as part of that

#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <antegrad/antegrad.h>
#include <fmt/format.h>
#include <torch/cuda.h>
#include <torch/utils.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "common/child.h"
#include "common/empty_cache.h"
#include "common/gpt12.h"
#include "common/gpu_memory.h"
#include "common/harness.h"
#include "common/measure.h"
#include "common/models.h"

namespace antegrad::bench {
namespace {

constexpr double kMiB = 1 << 20;

/// A model on the GPU, its loss, and a batch.
struct Subject {
  std::string name;
  std::shared_ptr<torch::nn::Module> module;
  std::function<at::Tensor(at::Tensor, at::Tensor)> loss;
  at::Tensor x, y;
  std::vector<std::string> words;  ///< for the peer
  double budget_mib = 0;           ///< of the steps within one; 0: there are none
};

Subject gpt2(std::string name, int64_t batch, int64_t time, double budget_mib) {
  torch::manual_seed(0);
  examples::GptConfig config{
      .vocabulary = 50304, .layers = 12, .width = 768, .heads = 12, .context = 1024};
  examples::Gpt model(config);
  model->to(at::kCUDA, at::kBFloat16);
  config.context = time;  // the peer takes whole contexts
  return {std::move(name),
          model.ptr(),
          [model](at::Tensor x, at::Tensor y) mutable { return model->loss(x, y); },
          at::randint(50304, {batch, time}, at::device(at::kCUDA).dtype(at::kLong)),
          at::randint(50304, {batch, time}, at::device(at::kCUDA).dtype(at::kLong)),
          peer_words(config, batch),
          budget_mib};
}

Subject mlp() {
  torch::manual_seed(0);
  examples::Mlp model(examples::MlpConfig{.layers = 24, .width = 2048, .dropout = 0});
  model->to(at::kCUDA, at::kBFloat16);
  const auto options = at::device(at::kCUDA).dtype(at::kBFloat16);
  auto words = peer_words("mlp", {4096, 24, 2048});
  words.emplace_back("0");
  return {"mlp",
          model.ptr(),
          [model](at::Tensor x, at::Tensor y) mutable { return model->loss(x, y); },
          at::randn({4096, 2048}, options),
          at::randn({4096, 2048}, options),
          std::move(words)};
}

constexpr const char* kChild = "--first-call";

Subject subject_of(const std::string& name) {
  if (name == "gpt2") return gpt2(name, 8, 1024, 2600);
  if (name == "gpt2_short") return gpt2(name, 1, 64, 0);
  return mlp();
}

// One first step, as one line of JSON.
void run_first_call(const std::string& name, const std::string& way) {
  const auto subject = subject_of(name);
  torch::cuda::synchronize();
  nlohmann::json found{{"compile_ms", 0.0}};
  found["first_ms"] = time_ms([&] {
    if (way == "eager") {
      subject.loss(subject.x, subject.y).backward();
    } else {
      auto step = compile(subject.module, subject.loss,
                          Options().with_lowering(Lowering::close).with_audit(Audit::off));
      at::Tensor(step(subject.x, subject.y)).backward();
      found["compile_ms"] = step.report().programs.at(0).compile_ms;
    }
    torch::cuda::synchronize();
  });
  fmt::print("{}\n", found.dump());
}

struct FirstCalls {
  std::vector<double> whole, compiling;

  void add(const std::string& name, const std::string& way) {
    const auto found = run_self({kChild, name, way});
    whole.push_back(found.at("first_ms").get<double>());
    compiling.push_back(found.at("compile_ms").get<double>());
  }
};

void add_first_calls(Bench& bench, const std::string& name) {
  FirstCalls eager, cold, warm;
  for (int round = bench.rounds(3); round > 0; --round) {
    const EmptyCache cache;
    eager.add(name, "eager");
    cold.add(name, "close");
    warm.add(name, "close");
  }
  const Peer peer{"eager", examples::median(eager.whole)};
  const auto add = [&](const std::string& which, const FirstCalls& calls) {
    const double whole = examples::median(calls.whole);
    bench.add({name, "close_first_call_" + which + "_ms", whole, "ms", peer, {}});
    bench.add(
        {name, "close_compile_" + which + "_ms", examples::median(calls.compiling), "ms", {}, {}});
  };
  add("cold", cold);
  add("warm", warm);
}

/// One kind of steps of ours.
struct Way {
  std::string name;
  Options options;
};

std::vector<Way> ways(double budget_mib) {
  const auto with = [](Lowering lowering) {
    return Options().with_lowering(lowering).with_audit(Audit::off);
  };
  std::vector<Way> all{
      {"off", with(Lowering::off)},
      {"exact", with(Lowering::exact)},
      {"exact_graphs", with(Lowering::exact).with_gpu_graphs(GpuGraphs::on)},
      {"close", with(Lowering::close)},
      {"close_graphs", with(Lowering::close).with_gpu_graphs(GpuGraphs::on)},
  };
  if (budget_mib > 0) {
    const auto bytes = static_cast<int64_t>(budget_mib * kMiB);
    all.push_back({"close_in_budget", with(Lowering::close).with_memory_budget(bytes)});
  }
  return all;
}

class CudaBench {
 public:
  CudaBench(Bench& bench, Subject subject) : bench_(bench), subject_(std::move(subject)) {}

  void run() {
    start_peers();
    eager_peak_ = peak_mib(subject_.loss);
    for (const Way& way : ways(subject_.budget_mib)) measure(way);
  }

 private:
  struct Inductor {
    std::string name;
    std::unique_ptr<PeerProcess> process;
    double peak_mib = 0;
  };

  // Inductor at its modes, each compiled in a process of its own.
  void start_peers() {
    auto words = subject_.words;
    words.insert(words.end(), {"bf16", "cuda"});
    for (const std::string mode :
         {"inductor", "inductor:reduce-overhead", "inductor:max-autotune"}) {
      if (bench_.quick() && mode != "inductor") continue;
      auto process = std::make_unique<PeerProcess>("steps.py", words);
      const auto answer = process->ask("compile " + mode + " none");
      if (!answer) continue;
      inductors_.push_back({mode, std::move(process), answer->at("peak_mib").get<double>()});
    }
  }

  void measure(const Way& way) {
    auto compiled = compile(subject_.module, subject_.loss, way.options);
    constexpr int kUntilGraphsAreThere = 10;
    for (int i = 0; i < kUntilGraphsAreThere; ++i) step(compiled);
    const int rounds = bench_.rounds(30);
    const auto beside_eager = time_pairs(
        subject_.name, rounds, [&] { step(compiled); }, [&] { step(subject_.loss); });
    const auto add_step = [&](const Pair& pair, const std::string& peer) {
      bench_.add({subject_.name,
                  way.name + "_step_ms",
                  pair.first_ms,
                  "ms",
                  Peer{peer, pair.second_ms},
                  {}});
    };
    add_step(beside_eager, "eager");
    for (const auto& inductor : inductors_) {
      const auto turns =
          inductor.process->time_turns(subject_.name, rounds, [&] { step(compiled); });
      if (turns) add_step(*turns, inductor.name);
    }
    const auto report = compiled.report();
    AG_CHECK(report.eager_calls == 0, "a compiled call ran eagerly");
    const auto& program = report.programs.at(0);
    const double peak = peak_mib(compiled);
    const auto add_peak = [&](const std::string& peer, double mib) {
      bench_.add({subject_.name, way.name + "_peak_mib", peak, "MiB", Peer{peer, mib}, {}});
    };
    add_peak("eager", eager_peak_);
    add_peak("predicted", static_cast<double>(program.predicted_peak_bytes) / kMiB);
    for (const auto& inductor : inductors_) add_peak(inductor.name, inductor.peak_mib);
    add(way.name + "_generated_kernels", static_cast<double>(program.generated_kernels.size()), "");
    report_graphs(way.name, program);
    if (std::getenv("ANTEGRAD_BENCH_KERNELS") == nullptr) return;
    for (const auto& [reason, nodes] : program.not_generated) {
      fmt::print("{:5} {}\n", nodes, reason);
    }
    fmt::print("{}", kernel_table(program));
  }

  // Whether graphs served the steps, and the memory that they keep.
  void report_graphs(const std::string& way, const ProgramReport& program) {
    for (const auto& graphs : program.gpu_graphs) {
      const std::string name = fmt::format("{}_{}", way, graphs.phase);
      add(name + "_replays", static_cast<double>(graphs.replays), "");
      add(name + "_mib", static_cast<double>(graphs.bytes) / kMiB, "MiB");
      if (!graphs.refused.empty()) note(subject_.name + ", " + name + ": " + graphs.refused);
    }
  }

  void add(const std::string& metric, double value, const std::string& unit) {
    bench_.add({subject_.name, metric, value, unit, {}, {}});
  }

  template <class Function>
  void step(Function& function) {
    examples::clear_gradients(*subject_.module);
    function(subject_.x, subject_.y).backward();
    torch::cuda::synchronize();
  }

  template <class Function>
  double peak_mib(Function& function) {
    examples::clear_gradients(*subject_.module);
    const auto peak = gpu_peak_bytes(subject_.x.get_device(), [&] { step(function); });
    return static_cast<double>(peak) / kMiB;
  }

  Bench& bench_;
  Subject subject_;
  std::vector<Inductor> inductors_;
  double eager_peak_ = 0;
};

void run(Bench& bench) {
  if (!torch::cuda::is_available()) return note("no GPU: nothing is measured");
  for (const std::string name : {"gpt2", "gpt2_short", "mlp"}) {
    if (!bench.wants(name)) continue;
    add_first_calls(bench, name);
    CudaBench(bench, subject_of(name)).run();
  }
}

}  // namespace
}  // namespace antegrad::bench

int main(int argc, char** argv) {
  using namespace antegrad::bench;
  if (argc == 4 && std::string(argv[1]) == kChild) {
    return run_bench([&] { run_first_call(argv[2], argv[3]); });
  }
  return run_bench("lowered_cuda", argc, argv, run);
}
