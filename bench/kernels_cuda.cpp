// Kernels of a GPU, one class after the other, beside libtorch's and beside the speed of a copy of
// 256 MiB. bfloat16. All of them run, also those that are slower.

#include <ATen/ops/batch_norm.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros_like.h>
#include <antegrad/antegrad.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/cuda.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "common/harness.h"
#include "common/measure.h"

namespace antegrad::bench {
namespace {

using List = std::vector<at::Tensor>;

/// A function whose forward and backward are the kernels of a class.
struct KernelClass {
  std::string name;
  std::function<at::Tensor(const List&)> function;
  std::vector<std::vector<int64_t>> sizes;
};

at::TensorOptions on_gpu() { return at::device(at::kCUDA).dtype(at::kBFloat16); }

std::vector<KernelClass> kernel_classes() {
  const auto classes = at::randint(50304, {8192}, at::device(at::kCUDA).dtype(at::kLong));
  return {
      {"pointwise",
       [](const List& x) { return (at::gelu(x[0]) * x[1]).sum(); },
       {{8192, 8192}, {8192, 8192}}},
      {"bias_gradient",
       [](const List& x) { return at::gelu(x[0] + x[1], "tanh").sin().sum(); },
       {{8192, 3072}, {3072}}},
      {"layer_norm",
       [](const List& x) { return at::layer_norm(x[0] + x[1], {768}, x[2], x[3]).sin().sum(); },
       {{32768, 768}, {32768, 768}, {768}, {768}}},
      {"softmax",
       [](const List& x) { return (at::softmax(x[0], -1) * x[1]).sum(); },
       {{32768, 1024}, {32768, 1024}}},
      {"cross_entropy",
       [classes](const List& x) { return at::cross_entropy_loss(x[0], classes); },
       {{8192, 50304}}},
      {"cross_entropy_in_float32",
       [classes](const List& x) { return at::cross_entropy_loss(x[0].to(at::kFloat), classes); },
       {{8192, 50304}}},
      {"batch_norm",
       [](const List& x) {
         const auto mean = at::zeros_like(x[1]), variance = at::ones_like(x[1]);
         return at::batch_norm(x[0], x[1], x[2], mean, variance, true, 0.1, 1e-5, false)
             .relu()
             .sum();
       },
       {{64, 256, 56, 56}, {256}, {256}}},
  };
}

double copy_speed() {
  const auto from = at::ones({int64_t{1} << 27}, on_gpu()), to = at::empty_like(from);
  const auto copies = [&] {
    for (int i = 0; i < 20; ++i) to.copy_(from);
    torch::cuda::synchronize();
  };
  copies();
  const examples::Stopwatch watch;
  copies();
  return 20 * 2 * static_cast<double>(from.nbytes()) / (watch.milliseconds() * 1e6);
}

void run(Bench& bench) {
  if (!torch::cuda::is_available()) return note("no GPU: nothing is measured");
  const double copy = copy_speed();
  bench.add({"copy", "gigabytes_per_second", copy, "GB/s", {}, {}});
  for (const auto& kernels : kernel_classes()) {
    if (!bench.wants(kernels.name)) continue;
    auto step = compile(kernels.function, Options()
                                              .with_lowering(Lowering::close)
                                              .with_keep_slow_kernels(true)
                                              .with_audit(Audit::off));
    List inputs;
    for (const auto& sizes : kernels.sizes) {
      inputs.push_back(at::randn(sizes, on_gpu()).requires_grad_());
    }
    step(inputs).backward();
    torch::cuda::synchronize();
    const auto report = step.report();
    const auto& program = report.programs.at(0);
    for (const auto& kernel : program.generated_kernels) {
      const double speed = static_cast<double>(kernel.bytes) / (kernel.microseconds * 1e3);
      note(
          fmt::format("{:24} {:8} {:8.1f} us, libtorch's {:8.1f} us, {:5.0f} GB/s, {:3.0f} % of a "
                      "copy: {}",
                      kernels.name, kernel.phase, kernel.microseconds, kernel.library_microseconds,
                      speed, 100 * speed / copy, fmt::join(kernel.operators, ", ")));
      bench.add({kernels.name + "_" + kernel.phase,
                 "kernel_us",
                 kernel.microseconds,
                 "us",
                 Peer{"libtorch", kernel.library_microseconds},
                 {}});
    }
    for (const auto& [reason, count] : program.not_generated) {
      note(fmt::format("{:24} not generated: {} ({})", kernels.name, reason, count));
    }
    if (!program.lowering_failure.empty()) note(program.lowering_failure);
  }
}

}  // namespace
}  // namespace antegrad::bench

int main(int argc, char** argv) {
  return antegrad::bench::run_bench("kernels_cuda", argc, argv, antegrad::bench::run);
}
