// Compiled backward: what a pass costs beside its kernels, and steps of models whose forward is
// eager, beside libtorch's engine.

#include <ATen/ops/randn.h>
#include <antegrad/antegrad.h>
#include <antegrad/compiled_backward.h>
#include <torch/utils.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backward/pass_run.h"
#include "common/child.h"
#include "common/empty_cache.h"
#include "common/gpt12.h"
#include "common/harness.h"
#include "common/models.h"
#include "common/step_rows.h"
#include "torch_compat/backward_pass.h"
#include "torch_compat/node_formulas.h"

namespace antegrad::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;

// A chain of `nodes` multiplications of small tensors, down to a leaf.
std::function<at::Tensor()> chain(int nodes) {
  const auto x = at::randn({4}).requires_grad_(), by = at::randn({4});
  return [=] {
    x.mutable_grad() = at::Tensor();
    auto y = x;
    for (int i = 0; i < nodes - 1; ++i) y = y * by;
    return y.sum();
  };
}

double collect_us = 0;
void collect_and_run(torch_compat::BackwardPass& pass) {
  {
    const auto start = Clock::now();
    const torch_compat::VisitedNodes visited(pass);
    collect_us = std::chrono::duration<double, std::micro>(Clock::now() - start).count();
  }
  backward::run_nodes(pass);
}

void measure_collection(Bench& bench) {
  constexpr int kNodes = 1000;
  const auto forward = chain(kNodes);
  torch_compat::take_backward_passes(collect_and_run);
  std::vector<double> times;
  for (int i = 0; i < bench.rounds(200); ++i) {
    forward().backward();
    times.push_back(collect_us / kNodes);
  }
  torch_compat::take_backward_passes(nullptr);
  bench.add({"collect", "us_per_node", examples::median(times), "us", {}, 0.3});
}

void measure_replay(Bench& bench, int nodes) {
  const auto forward = chain(nodes);
  CompiledBackward scope(Options().with_lowering(Lowering::off));
  const auto pass = [&](bool compiled) {
    std::optional<EagerBackward> eager;
    if (!compiled) eager.emplace();
    const auto loss = forward();
    const auto start = Clock::now();
    loss.backward();
    return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
  };
  std::vector<double> ours, theirs;
  for (int i = 0; i < bench.rounds(400) + 3; ++i) {
    const double first = pass(true), second = pass(false);
    if (i < 3) continue;
    ours.push_back(first);
    theirs.push_back(second);
  }
  const std::string name = "replay" + std::to_string(nodes);
  bench.add({name, "added_us", examples::median(ours) - examples::median(theirs), "us", {}, 0.0});
  bench.add(
      {name, "pass_us", examples::median(ours), "us", Peer{"eager", examples::median(theirs)}, {}});
}

template <class Model>
void measure_model(Bench& bench, const std::string& name, Model model,
                   std::pair<at::Tensor, at::Tensor> batch, int rounds) {
  const auto clear = [&] {
    for (const auto& parameter : model->parameters()) parameter.mutable_grad() = at::Tensor();
  };
  const auto step = [&] {
    clear();
    model->loss(batch.first, batch.second).backward();
  };
  const auto eager_step = [&] {
    const EagerBackward eager;
    step();
  };
  for (const auto level : {Lowering::exact, Lowering::close}) {
    const std::string prefix = level == Lowering::exact ? "exact_" : "close_";
    CompiledBackward scope(Options().with_name(name).with_lowering(level));
    add_step_rows(bench, name, prefix, rounds, {step, eager_step, clear});
    const auto report = scope.report();
    bench.add({name,
               prefix + "nodes_compiled_share",
               static_cast<double>(report.nodes_compiled) / static_cast<double>(report.nodes),
               "",
               {},
               {}});
    AG_CHECK(report.eager_reasons.empty(), "a segment ran one by one");
  }
}

constexpr int64_t kSequences = 8;

examples::GptConfig gpt_config() {
  return {.vocabulary = 512, .layers = 6, .width = 384, .heads = 6, .context = 256};
}

// The first backward of a process, beyond a later one of libtorch's engine. Nothing is compiled
// yet.
void measure_first_call(Bench& bench) {
  torch::manual_seed(0);
  const auto config = gpt_config();
  examples::Gpt gpt(config);
  const auto tokens = random_tokens(config, kSequences);
  const auto backward_ms = [&] {
    for (const auto& parameter : gpt->parameters()) parameter.mutable_grad() = at::Tensor();
    const auto loss = gpt->loss(tokens.inputs, tokens.targets);
    const auto start = Clock::now();
    loss.backward();
    return Milliseconds(Clock::now() - start).count();
  };
  std::vector<double> engine, first_exact, first_off;
  for (int i = 0; i < 4; ++i) engine.push_back(backward_ms());
  for (int i = 0; i < bench.rounds(5); ++i) {
    const EmptyCache empty;
    {
      const CompiledBackward scope(Options().with_lowering(Lowering::off));
      backward_ms();
      // The difference of two passes would be lost in their noise.
      double made = 0;
      for (const auto& program : scope.report().programs) {
        made += program.capture_ms + program.compile_ms;
      }
      first_off.push_back(made);
    }
    if (i > 0) continue;  // what was compiled stays in the process
    const CompiledBackward scope(Options().with_lowering(Lowering::exact));
    first_exact.push_back(backward_ms());
  }
  const double without = examples::median(engine);
  const auto peer = [&](const std::string& backend) -> std::optional<Peer> {
    note("gpt: compiled autograd of PyTorch with " + backend + ", up to a minute");
    auto arguments = peer_arguments(config, kSequences);
    arguments.insert(arguments.begin(), backend);
    const auto found = run_peer("backward.py", arguments);
    if (!found) return std::nullopt;
    return Peer{"compiled_autograd " + backend, found->at("first_call_ms").get<double>()};
  };
  bench.add({"gpt", "off_first_call_ms", examples::median(first_off), "ms", peer("aot_eager"), {}});
  bench.add({"gpt",
             "exact_first_call_ms",
             examples::median(first_exact) - without,
             "ms",
             peer("inductor"),
             {}});
}

void measure_models(Bench& bench) {
  const auto gpt = gpt_config();
  torch::manual_seed(0);
  const auto tokens = random_tokens(gpt, kSequences);
  const auto wants = [&](const char* name) { return bench.wants(name); };
  if (wants("gpt"))
    measure_model(bench, "gpt", examples::Gpt(gpt), {tokens.inputs, tokens.targets}, 9);
  const examples::MlpConfig mlp;
  if (wants("mlp"))
    measure_model(bench, "mlp", examples::Mlp(mlp),
                  {at::randn({4096, mlp.width}), at::randn({4096, mlp.width})}, 9);
  if (wants("cnn"))
    measure_model(bench, "cnn", examples::Cnn(examples::CnnConfig{}),
                  {at::randn({64, 3, 32, 32}), at::randint(10, {64})}, 15);
}

}  // namespace
}  // namespace antegrad::bench

int main(int argc, char** argv) {
  using namespace antegrad::bench;
  return run_bench([&] {
    Bench bench("backward", argc, argv);
    if (bench.wants("collect")) measure_collection(bench);
    if (bench.wants("replay10")) measure_replay(bench, 10);
    if (bench.wants("replay1000")) measure_replay(bench, 1000);
    if (bench.wants("gpt")) measure_first_call(bench);
    measure_models(bench);
  });
}
