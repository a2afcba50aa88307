#include "compile/pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include "compile/backward_variants.h"
#include "compile/cache_notes.h"
#include "compile/hooks.h"
#include "graph/hash.h"
#include "graph/text.h"
#include "graph/verify.h"
#include "log/log.h"
#include "memory/peak.h"
#include "partition/choice.h"
#include "partition/split.h"
#include "passes/joint_passes.h"
#include "passes/pass_manager.h"
#include "passes/reinplace.h"
#include "runtime/kernel_times.h"
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
              const ByteRules& rules, int32_t first_hook, ProgramReport& report) {
  report.donated = donated_texts(partition.forward, donated);
  const auto timeline = simulate(partition, rules);
  report.forward_nodes = static_cast<int64_t>(partition.forward.nodes.size());
  report.backward_nodes = static_cast<int64_t>(partition.backward.nodes.size());
  for (const auto& node : partition.backward.nodes) {
    const bool again = node.phase == Phase::forward && node.id < first_hook;
    if (again) ++report.recomputed[node.op.name()];
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

void describe(const PlannedBudget& planned, double milliseconds, ProgramReport& report) {
  report.memory_budget_bytes = planned.bytes;
  report.eager_peak_bytes = planned.eager_peak;
  report.smallest_budget_bytes = planned.smallest;
  report.recompute_share = planned.recompute_share;
  report.planning_ms = milliseconds;
}

// The choice that the options make, with what is measured for it.
PartitionChoice choice_for(const Graph& joint, const ops::AttrTables& tables,
                           const Options& options) {
  PartitionChoice choice;
  choice.partitioner = options.partition;
  choice.min_cut = options.min_cut;
  choice.budget = options.budget;
  if (!has_backward(joint)) return choice;
  if (options.partition == Partitioner::budget) {
    choice.rules.scratch = runtime::measure_scratch(joint, tables);
  }
  if (wants_seconds(choice)) choice.seconds = runtime::measure_seconds(joint, tables);
  return choice;
}

// The partition that the choice leads to. A share of memory becomes bytes.
Partition partition_joint(const Graph& joint, PartitionChoice& choice, ProgramReport& report) {
  const auto start = std::chrono::steady_clock::now();
  auto [partition, planned] = partition_for(joint, choice);
  if (planned) {
    describe(*planned, milliseconds_since(start), report);
    choice.budget.bytes = planned->bytes;
    choice.budget.share.reset();
  }
  return std::move(partition);
}

// A partition, and the hooks on what it saves.
struct Decided {
  Partition partition;
  CapturedHooks hooks;
};

[[noreturn]] void refuse_budget(int64_t smallest, int64_t budget) {
  throw BudgetError(smallest, ErrorText{fmt::format("a memory budget of at least {} bytes, the "
                                                    "smallest that a plan with these hooks keeps",
                                                    smallest),
                                        fmt::format("a budget of {} bytes", budget),
                                        "raise the budget, or leave out the hooks"});
}

int64_t peak_with(Partition partition, Hooked hooked, const ByteRules& rules) {
  apply_hooks(partition, hooked);
  return simulate(partition, rules).peak_bytes;
}

// Ways to keep what is saved: the hooks of the scope, or those that a plan for a budget may take.
std::vector<HookCaptures> ways_to_pack(const Options& options,
                                       const std::shared_ptr<const detail::HookPair>& hooks) {
  const auto objects = std::make_shared<HookObjects>();
  std::vector<HookCaptures> ways;
  if (hooks != nullptr) {
    ways.emplace_back(hooks, objects);
  } else if (options.partition == Partitioner::budget) {
    for (const auto compressor : options.budget.compressors) {
      ways.emplace_back(compress::hooks_of(compressor).pair(), objects);
    }
  }
  return ways;
}

// Plans for a budget know what packed tensors take, but not all: arguments that hooks stand for, and copies of what they
// return in other strides. Where that goes over the budget, they leave room for it.
Decided decide(const Graph& joint, const Options& options,
               const std::shared_ptr<const detail::HookPair>& hooks, int32_t first_node,
               PartitionChoice& choice, ProgramReport& report) {
  auto ways = ways_to_pack(options, hooks);
  const auto filter = options.saved_tensors_hooks_filtering_mode;
  if (choice.partitioner == Partitioner::budget && !ways.empty() && has_backward(joint)) {
    choice.packings = weigh(ways, hooks != nullptr, joint, filter, choice.rules);
  }
  Decided decided{partition_joint(joint, choice, report), {}};
  if (ways.empty() || decided.partition.saved.empty()) return decided;
  const auto budget = choice.budget.bytes;
  const auto smallest = report.smallest_budget_bytes;
  while (true) {
    decided.hooks = hooks != nullptr
                        ? capture_hooks(ways.front(), decided.partition, filter, first_node, report)
                        : capture_packed(ways, decided.partition, first_node, report);
    if (choice.partitioner != Partitioner::budget) return decided;
    const auto peak = peak_with(decided.partition, decided.hooks.hooked, choice.rules);
    if (peak <= budget) return decided;
    if (choice.budget.bytes <= smallest) {
      if (!options.budget.share) refuse_budget(peak, budget);
      report.memory_budget_bytes = peak;  // the smallest that is known with these hooks
      return decided;
    }
    choice.budget.bytes = std::max(smallest, choice.budget.bytes - (peak - budget));
    decided.partition = partition_for(joint, choice).partition;
  }
}

}  // namespace

CompiledProgram compile_joint(capture::Captured captured, std::shared_ptr<const PackedGraph> raw,
                              const Options& options, LaterCaptures later,
                              const std::shared_ptr<const detail::HookPair>& hooks) {
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

  const auto first_node = static_cast<int32_t>(captured.joint.nodes.size());
  auto joint = run_joint_passes(std::move(captured.joint), context);
  report.joint_nodes = static_cast<int64_t>(joint.nodes.size());
  report.graph_hash = to_string(structural_hash(joint));
  log(Artifact::graph, [&] { return "joint graph of " + options.name + "\n" + to_text(joint); });

  auto choice = choice_for(joint, captured.tables, options);
  auto [partition, captured_hooks] = decide(joint, options, hooks, first_node, choice, report);
  compiled.record = make_record(partition, choice);
  const auto gradients = gradients_of(joint);
  const auto variants = std::make_shared<BackwardVariants>(
      std::move(raw),
      BackwardVariants::Joint{PackedGraph(joint), captured.tables, captured.backward_error},
      gradients, partition, std::move(later.recapture), context);
  const auto tables = with_objects(captured.tables, captured_hooks.objects);
  const auto forward_values = apply_hooks(partition, captured_hooks.hooked);
  variants->set_hooked(std::move(captured_hooks));
  if (options.verify_graphs) {
    verify(partition.forward);
    verify(partition.backward);
  }
  // Last: writing in place ends SSA's freedom to move nodes.
  partition.forward = run_pass(
      "reinplace", [](Graph graph) { return reinplace(std::move(graph)); },
      std::move(partition.forward), context);

  const auto executable = std::make_shared<runtime::Executable>(
      partition.forward, tables, gradients,
      [variants](const runtime::BackwardKey& key) { return variants->make(key); },
      std::move(later.line_of), std::move(captured.questions));
  const auto donated = executable->donated();
  variants->set_donated(donated);
  if (!captured.backward_error) {
    partition.backward = run_pass(
        "reinplace",
        [&](Graph graph) {
          const auto mine = in_backward(graph, donated, forward_values);
          return reinplace(std::move(graph), mine);
        },
        std::move(partition.backward), context);
    executable->add_backward(executable->usual_key(), {partition.backward, tables, forward_values});
  }
  describe(partition, donated, choice.rules, first_node, report);
  note_code(partition.forward, report);
  note_code(partition.backward, report);
  if (hooks != nullptr) note_hooks(*hooks, report);
  compiled.executable = executable;
  report.compile_ms = milliseconds_since(start);
  return compiled;
}

}  // namespace antegrad::compiler
