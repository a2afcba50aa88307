// What it takes to find out that a program fits a call: every guard of a 12-layer GPT, all holding.

#include <antegrad/error.h>
#include <antegrad/tree.h>
#include <benchmark/benchmark.h>
#include <torch/utils.h>

#include "capture/capture.h"
#include "common/gpt12.h"
#include "common/harness.h"
#include "common/measure.h"
#include "compile/guards.h"
#include "compile/module_tree.h"

namespace antegrad::bench {
namespace {

constexpr int kCallsPerSample = 1000;

// The guards that ag::compile would make for this call.
compiler::GuardSet guards_of(examples::Gpt& model, const Leaves& arguments) {
  const auto tree = std::make_shared<const compiler::ModuleTree>(model.ptr());
  capture::Request request;
  request.name = "gpt12";
  request.arguments = arguments.tensors;
  request.body = [&](const std::vector<at::Tensor>& tensors) {
    return std::vector<at::Tensor>{model->loss(tensors.at(0), tensors.at(1))};
  };
  request.source_of = [&](const at::Tensor& tensor) {
    const auto* slot = tree->find(tensor);
    return slot == nullptr ? Source{} : slot->source;
  };
  const auto captured = capture::capture(request);
  return {captured.joint, captured.primals, captured.leaf_inputs, arguments, nullptr, tree};
}

void run(Bench& bench) {
  torch::manual_seed(0);
  const auto config = gpt12();
  examples::Gpt model(config);
  auto tokens = random_tokens(config, /*batch=*/2);
  const Leaves arguments{{tokens.inputs, tokens.targets}, {}};
  const auto guards = guards_of(model, arguments);
  AG_CHECK(guards.holds(arguments, nullptr), "guards of the call they were made for");

  const auto time_us = [&](const auto& call) {
    std::vector<double> samples;
    for (int i = 0; i < bench.rounds(500); ++i) {
      const examples::Stopwatch watch;
      for (int k = 0; k < kCallsPerSample; ++k) call();
      samples.push_back(watch.milliseconds() * 1e3 / kCallsPerSample);
    }
    return examples::median(samples);
  };
  const auto hit = time_us([&] { benchmark::DoNotOptimize(guards.holds(arguments, nullptr)); });
  const auto primals = time_us([&] { benchmark::DoNotOptimize(guards.primals(arguments)); });
  bench.add({"gpt12", "hit_us", hit, "us", {}, 1});
  bench.add({"gpt12", "primals_us", primals, "us", {}, {}});
  bench.add({"gpt12", "lifted_tensors", static_cast<double>(guards.lifted_count()), "", {}, {}});
}

}  // namespace
}  // namespace antegrad::bench

int main(int argc, char** argv) {
  using namespace antegrad::bench;
  return run_bench([&] {
    Bench bench("guards", argc, argv);
    run(bench);
  });
}
