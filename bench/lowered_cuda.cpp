// Training steps on a GPU with generated kernels, beside libtorch's kernels and eager mode, in
// turns: time, and the peak of the step. bfloat16.

#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <antegrad/antegrad.h>
#include <fmt/format.h>
#include <torch/cuda.h>
#include <torch/utils.h>

#include <functional>
#include <string>
#include <utility>

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

class CudaBench {
 public:
  CudaBench(Bench& bench, Subject subject) : bench_(bench), subject_(std::move(subject)) {}

  void run() {
    if (!bench_.wants(subject_.name)) return;
    const auto compiled = [&](Lowering lowering, GpuGraphs graphs = GpuGraphs::off) {
      return compile(
          subject_.module, subject_.loss,
          Options().with_lowering(lowering).with_audit(Audit::off).with_gpu_graphs(graphs));
    };
    auto close = compiled(Lowering::close);
    auto off = compiled(Lowering::off);
    const examples::Stopwatch watch;
    step(close);
    add("close_first_call_ms", watch.milliseconds(), "ms");
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
  CudaBench(bench, gpt2("gpt2", 8, 1024)).run();
  CudaBench(bench, gpt2("gpt2_short", 1, 64)).run();
  CudaBench(bench, mlp()).run();
}

}  // namespace
}  // namespace antegrad::bench

int main(int argc, char** argv) {
  return antegrad::bench::run_bench("lowered_cuda", argc, argv, antegrad::bench::run);
}
