#include "compile/pipeline.h"

#include <antegrad/error.h>
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <utility>

#include "compile/backward_variants.h"
#include "graph/hash.h"
#include "graph/text.h"
#include "graph/verify.h"
#include "log/log.h"
#include "memory/peak.h"
#include "partition/budget/planner.h"
#include "partition/default_partition.h"
#include "partition/min_cut.h"
#include "partition/split.h"
#include "passes/joint_passes.h"
#include "passes/pass_manager.h"
#include "passes/reinplace.h"
#include "runtime/scratch.h"

namespace antegrad::compiler {
namespace {

std::vector<Output> gradients_of(const Graph& joint) {
  std::vector<Output> gradients;
  for (const auto& output : joint.outputs) {
    if (output.kind == OutputKind::gradient) gradients.push_back(output);
  }
  return gradients;
}

std::vector<std::string> donated_texts(const Graph& forward, const std::vector<ValueId>& donated) {
  const DefUse uses(forward);
  std::vector<std::string> texts;
  for (const auto value : donated) {
    const auto producer = uses.producer[static_cast<size_t>(value)];
    const auto type = value_text(forward.value(value));
    texts.push_back(
        producer < 0 ? fmt::format("a copy of {}", type)
                     : fmt::format("%{} of {}: {}", value,
                                   forward.nodes[static_cast<size_t>(producer)].op.name(), type));
  }
  return texts;
}

void describe(const Partition& partition, const std::vector<ValueId>& donated,
              const ByteRules& rules, ProgramReport& report) {
  report.donated = donated_texts(partition.forward, donated);
  const auto timeline = simulate(partition, rules);
  report.forward_nodes = static_cast<int64_t>(partition.forward.nodes.size());
  report.backward_nodes = static_cast<int64_t>(partition.backward.nodes.size());
  for (const auto& node : partition.backward.nodes) {
    if (node.phase == Phase::forward) ++report.recomputed[node.op.name()];
  }
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

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

Partition partition_for_budget(const Graph& joint, const BudgetOptions& options,
                               const ByteRules& rules, ProgramReport& report) {
  const auto start = std::chrono::steady_clock::now();
  const budget::Planner planner(joint, budget::roofline(joint), rules, {options.effort, {}});
  const auto most = planner.frontier().eager_peak;
  const auto least = planner.frontier().archive.smallest().peak;
  report.eager_peak_bytes = most;
  report.smallest_budget_bytes = least;
  report.memory_budget_bytes =
      options.share ? least + std::llround(*options.share * static_cast<double>(most - least))
                    : options.bytes;
  const auto point = planner.pick(report.memory_budget_bytes);
  report.recompute_share =
      static_cast<double>(point.extra) / static_cast<double>(planner.problem().time);
  auto partition = planner.partition(point);
  report.planning_ms = milliseconds_since(start);
  return partition;
}

Partition partition_joint(const Graph& joint, const Options& options, const ByteRules& rules,
                          ProgramReport& report) {
  if (!has_backward(joint)) return default_partition(joint);
  switch (options.partition) {
    case Partitioner::as_written: return default_partition(joint);
    case Partitioner::min_cut: return min_cut_partition(joint, options.min_cut);
    case Partitioner::budget: return partition_for_budget(joint, options.budget, rules, report);
  }
  AG_CHECK(false, "no such partitioner");
}

}  // namespace

CompiledProgram compile_joint(capture::Captured captured, std::shared_ptr<const Graph> raw,
                              const Options& options, LaterCaptures later) {
  const auto start = std::chrono::steady_clock::now();
  const PassContext context{options.verify_graphs, options.dump_dir,
                            std::make_shared<std::vector<PassRecord>>()};
  CompiledProgram compiled;
  auto& report = compiled.report;
  report.name = options.name;
  report.capture_ms = captured.milliseconds;
  report.shape_functions = captured.counts.shape_functions;
  report.meta_kernels = captured.counts.meta_kernels;
  report.real_kernels = captured.counts.real_kernels + captured.counts.memoised;
  report.without_shape_function = std::move(captured.counts.slow);
  report.shape_checks = std::move(captured.counts.checks);

  auto joint = run_joint_passes(std::move(captured.joint), context);
  report.joint_nodes = static_cast<int64_t>(joint.nodes.size());
  report.graph_hash = to_string(structural_hash(joint));
  log(Artifact::graph, [&] { return "joint graph of " + options.name + "\n" + to_text(joint); });

  PartitionChoice choice;
  choice.partitioner = options.partition;
  choice.min_cut = options.min_cut;
  choice.budget = options.budget;
  if (options.partition == Partitioner::budget && has_backward(joint)) {
    choice.rules.scratch = runtime::measure_scratch(joint, captured.tables);
  }
  const auto& rules = choice.rules;
  auto partition = partition_joint(joint, options, rules, report);
  choice.budget.bytes = report.memory_budget_bytes;
  compiled.record = make_record(partition, choice);
  // Last: writing in place ends SSA's freedom to move nodes.
  partition.forward = run_pass(
      "reinplace", [](Graph graph) { return reinplace(std::move(graph)); },
      std::move(partition.forward), context);

  const auto gradients = gradients_of(joint);
  const auto variants = std::make_shared<BackwardVariants>(
      std::move(raw),
      BackwardVariants::Joint{std::move(joint), captured.tables, captured.backward_error},
      partition, std::move(later.recapture), context);
  const auto executable = std::make_shared<runtime::Executable>(
      partition.forward, captured.tables, gradients,
      [variants](const runtime::BackwardKey& key) { return variants->make(key); },
      std::move(later.line_of), std::move(captured.questions));
  const auto donated = executable->donated();
  variants->set_donated(donated);
  if (!captured.backward_error) {
    partition.backward = run_pass(
        "reinplace", [&](Graph graph) { return reinplace(std::move(graph), donated); },
        std::move(partition.backward), context);
    executable->add_backward(executable->usual_key(), {partition.backward, captured.tables});
  }
  describe(partition, donated, rules, report);
  compiled.executable = executable;
  report.compile_ms = milliseconds_since(start);
  return compiled;
}

}  // namespace antegrad::compiler
