// The time of each stage after capture, in the pipeline's order, and of the text form, on the joint
// graph of a 12-layer GPT.

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <antegrad/compile.h>

#include "common/gpt12.h"
#include "common/harness.h"
#include "graph/hash.h"
#include "graph/parse.h"
#include "graph/text.h"
#include "graph/verify.h"
#include "memory/peak.h"
#include "partition/default_partition.h"
#include "passes/cse.h"
#include "passes/dce.h"
#include "passes/no_ops.h"
#include "passes/reinplace.h"
#include "passes/size_only_inputs.h"
#include "runtime/executable.h"

namespace antegrad::bench {
namespace {

// Times single stages. A stage that consumes its graph gets a copy, which is made outside of the
// timed part.
class Stages {
 public:
  explicit Stages(Bench& bench) : bench_(bench), rounds_(bench.rounds(200)) {}

  template <class Stage>
  void read(const std::string& name, const Stage& stage) {
    add(name, time_us(rounds_, /*calls=*/1, [&] { benchmark::DoNotOptimize(stage()); }));
  }

  /// Returns the result of the stage.
  template <class Stage>
  auto consume(const std::string& name, const Graph& graph, const Stage& stage) {
    std::vector<Graph> copies(static_cast<size_t>(rounds_) + 1, graph);
    size_t next = 0;
    add(name, time_us(rounds_, /*calls=*/1,
                      [&] { benchmark::DoNotOptimize(stage(std::move(copies[next++]))); }));
    return stage(graph);
  }

 private:
  void add(const std::string& name, double us) {
    bench_.add({"gpt12", name + "_us", us, "us", {}, {}});
  }

  Bench& bench_;
  int rounds_;
};

// Heap bytes that a compiled program keeps per node of its joint graph. The first program fills
// tables of the process.
void measure_kept(Bench& bench, examples::Gpt model) {
  const auto tokens = random_tokens(gpt12(), kBatch);
  const auto compile = [&] {
    auto step =
        antegrad::compile(model.ptr(), [&](const at::Tensor& inputs, const at::Tensor& targets) {
          return model->loss(inputs, targets);
        });
    step.warmup(tokens.inputs, tokens.targets);
    return step;
  };
  const auto first = compile();
  const auto before = heap_bytes();
  const auto second = compile();
  const auto kept = static_cast<double>(heap_bytes() - before);
  const auto nodes = static_cast<double>(second.report().programs.front().joint_nodes);
  bench.add({"gpt12", "kept_bytes_per_node", kept / nodes, "bytes", {}, 512});
}

void run(Bench& bench) {
  auto gpt = capture_gpt12();
  measure_kept(bench, gpt.model);
  Stages stages(bench);
  auto joint = std::move(gpt.captured.joint);
  bench.add({"gpt12", "captured_nodes", static_cast<double>(joint.nodes.size()), "", {}, {}});
  joint = stages.consume("no_ops", joint, no_ops);
  joint = stages.consume("size_only_inputs", joint, size_only_inputs);
  joint = stages.consume("cse", joint, cse);
  joint = stages.consume("dce", joint, dce);
  bench.add({"gpt12", "joint_nodes", static_cast<double>(joint.nodes.size()), "", {}, {}});
  stages.read("structural_hash", [&] { return structural_hash(joint); });
  auto parts = stages.consume("default_partition", joint, default_partition);
  stages.read("plan_call", [&] { return plan_call(parts.forward, parts.backward).saved.size(); });
  parts.forward = stages.consume("reinplace_forward", parts.forward,
                                 [](Graph graph) { return reinplace(std::move(graph)); });
  const auto donated = parts.plan.donated();
  parts.backward = stages.consume("reinplace_backward", parts.backward, [&](Graph graph) {
    return reinplace(std::move(graph), donated);
  });
  stages.read("simulate", [&] { return simulate(parts).peak_bytes; });
  stages.read("executable", [&] {
    const auto& tables = gpt.captured.tables;
    runtime::ExecutableParts of{"gpt12", std::make_shared<const CallPlan>(parts.plan),
                                parts.forward, tables};
    of.backward = &parts.backward;
    return std::make_shared<runtime::Executable>(std::move(of))->backwards().count();
  });
  // Release builds do not verify while compiling.
  stages.read("verify", [&] {
    verify(joint);
    return 0;
  });
  const auto text = to_text(joint);
  stages.read("to_text", [&] { return to_text(joint).size(); });
  stages.read("parse", [&] { return parse_graph(text).nodes.size(); });
}

}  // namespace
}  // namespace antegrad::bench

int main(int argc, char** argv) {
  return antegrad::bench::run_bench("core", argc, argv, antegrad::bench::run);
}
