// Training steps on a GPU with generated kernels, beside libtorch's kernels and eager mode, in
// turns: time, and the peak of the step. bfloat16.
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

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "common/child.h"
#include "common/empty_cache.h"
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
};

Subject gpt2(std::string name, int64_t batch, int64_t time) {
  torch::manual_seed(0);
  examples::Gpt model(examples::GptConfig{
      .vocabulary = 50304, .layers = 12, .width = 768, .heads = 12, .context = 1024});
  model->to(at::kCUDA, at::kBFloat16);
  return {std::move(name), model.ptr(),
          [model](at::Tensor x, at::Tensor y) mutable { return model->loss(x, y); },
          at::randint(50304, {batch, time}, at::device(at::kCUDA).dtype(at::kLong)),
          at::randint(50304, {batch, time}, at::device(at::kCUDA).dtype(at::kLong))};
}

Subject mlp() {
  torch::manual_seed(0);
  examples::Mlp model(examples::MlpConfig{.layers = 24, .width = 2048, .dropout = 0});
  model->to(at::kCUDA, at::kBFloat16);
  const auto options = at::device(at::kCUDA).dtype(at::kBFloat16);
  return {"mlp", model.ptr(),
          [model](at::Tensor x, at::Tensor y) mutable { return model->loss(x, y); },
          at::randn({4096, 2048}, options), at::randn({4096, 2048}, options)};
}

constexpr const char* kChild = "--first-call";

Subject subject_of(const std::string& name) {
  if (name == "gpt2") return gpt2(name, 8, 1024);
  if (name == "gpt2_short") return gpt2(name, 1, 64);
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

class CudaBench {
 public:
  CudaBench(Bench& bench, Subject subject) : bench_(bench), subject_(std::move(subject)) {}

  void run() {
    const auto compiled = [&](Lowering lowering, GpuGraphs graphs = GpuGraphs::off) {
      return compile(
          subject_.module, subject_.loss,
          Options().with_lowering(lowering).with_audit(Audit::off).with_gpu_graphs(graphs));
    };
    auto close = compiled(Lowering::close);
    auto off = compiled(Lowering::off);
    step(close);
    step(off);
    const auto report = close.report();
    AG_CHECK(report.eager_calls == 0, "a compiled call ran eagerly");
    add("close_generated_kernels",
        static_cast<double>(report.programs.at(0).generated_kernels.size()), "");
    const int rounds = bench_.rounds(30);
    const auto beside = [&](const std::string& peer, auto& other) {
      const auto pair = time_pairs(
          subject_.name, rounds, [&] { step(close); }, [&] { step(other); });
      bench_.add(
          {subject_.name, "close_step_ms", pair.first_ms, "ms", Peer{peer, pair.second_ms}, {}});
    };
    beside("eager", subject_.loss);
    beside("lowering=off", off);
    bench_.add({subject_.name,
                "close_peak_mib",
                peak_mib(close),
                "MiB",
                Peer{"eager", peak_mib(subject_.loss)},
                {}});
    auto graphs = compiled(Lowering::close, GpuGraphs::on);
    for (int i = 0; i < 10; ++i) step(graphs);
    const auto pair = time_pairs(
        subject_.name, rounds, [&] { step(graphs); }, [&] { step(subject_.loss); });
    bench_.add({subject_.name,
                "close_graphs_step_ms",
                pair.first_ms,
                "ms",
                Peer{"eager", pair.second_ms},
                {}});
    report_graphs(graphs.report().programs.at(0));
  }

 private:
  // Whether graphs served the steps, and the memory that they keep.
  void report_graphs(const ProgramReport& program) {
    for (const auto& graphs : program.gpu_graphs) {
      add(graphs.phase + "_graph_replays", static_cast<double>(graphs.replays), "");
      add(graphs.phase + "_graph_mib", static_cast<double>(graphs.bytes) / kMiB, "MiB");
      if (!graphs.refused.empty())
        note(subject_.name + ", " + graphs.phase + ": " + graphs.refused);
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
