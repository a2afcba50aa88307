#include "compile/pipeline.h"

#include <chrono>
#include <utility>

#include "graph/hash.h"
#include "graph/text.h"
#include "graph/verify.h"
#include "log/log.h"
#include "memory/peak.h"
#include "partition/default_partition.h"
#include "passes/cse.h"
#include "passes/dce.h"
#include "passes/no_ops.h"
#include "passes/pass_manager.h"
#include "passes/reinplace.h"
#include "passes/size_only_inputs.h"

namespace antegrad::compiler {
namespace {

struct Pass {
  const char* name;
  Graph (*run)(Graph);
};

// On the joint graph, where forward and backward can still be simplified together.
constexpr Pass kJointPasses[] = {
    // Functionalisation leaves chains of views and copies behind; fewer nodes for all that follow.
    {"no_ops", no_ops},
    // Before cse and dce: what only sizes were read of becomes equal or dead.
    {"size_only_inputs", size_only_inputs},
    // After no_ops, which makes inputs of equal nodes the same value.
    {"cse", cse},
    // Last: drops what the others left unused. The partition wants no dead code.
    {"dce", dce},
};

// On forward and backward each, after the partition: these write in place, which ends SSA's freedom
// to move nodes.
constexpr Pass kProgramPasses[] = {
    {"reinplace", reinplace},
};

template <size_t n>
Graph run_all(const Pass (&passes)[n], Graph graph, const PassContext& context) {
  for (const auto& pass : passes) graph = run_pass(pass.name, pass.run, std::move(graph), context);
  return graph;
}

void describe(const Partition& partition, ProgramReport& report) {
  const auto timeline = simulate(partition);
  report.forward_nodes = static_cast<int64_t>(partition.forward.nodes.size());
  report.backward_nodes = static_cast<int64_t>(partition.backward.nodes.size());
  report.saved_bytes = timeline.saved_bytes;
  report.predicted_peak_bytes = timeline.peak_bytes;
  for (const auto& saved : partition.saved) {
    report.saved_tensors += saved.why == SavedWhy::intermediate || saved.why == SavedWhy::view_base;
  }
  log(Artifact::memory, [&] {
    return report.name + ": " + std::to_string(report.saved_tensors) + " saved intermediates, " +
           std::to_string(report.saved_bytes) + " bytes; predicted peak " +
           std::to_string(report.predicted_peak_bytes) + " bytes";
  });
}

}  // namespace

CompiledProgram compile_joint(capture::Captured captured, const Options& options) {
  const auto start = std::chrono::steady_clock::now();
  const PassContext context{options.verify_graphs, options.dump_dir, nullptr};
  CompiledProgram compiled;
  auto& report = compiled.report;
  report.name = options.name;
  report.capture_ms = captured.milliseconds;
  report.shape_functions = captured.counts.shape_functions;
  report.meta_kernels = captured.counts.meta_kernels;
  report.real_kernels = captured.counts.real_kernels + captured.counts.memoised;

  auto joint = run_pass(
      "capture", [](Graph graph) { return graph; }, std::move(captured.joint), context);
  joint = run_all(kJointPasses, std::move(joint), context);
  report.joint_nodes = static_cast<int64_t>(joint.nodes.size());
  report.graph_hash = to_string(structural_hash(joint));
  log(Artifact::graph, [&] { return "joint graph of " + options.name + "\n" + to_text(joint); });

  auto partition = default_partition(std::move(joint));
  partition.forward = run_all(kProgramPasses, std::move(partition.forward), context);
  partition.backward = run_all(kProgramPasses, std::move(partition.backward), context);
  describe(partition, report);

  compiled.executable = std::make_shared<const runtime::Executable>(
      partition.forward, partition.backward, captured.tables, captured.backward_error);
  report.compile_ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return compiled;
}

}  // namespace antegrad::compiler
