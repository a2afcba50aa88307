#include "compile/program_report.h"

#include <fmt/format.h>

#include <set>
#include <utility>

#include "compile/cache_notes.h"
#include "explain/svg_timeline.h"
#include "graph/analysis.h"
#include "graph/text.h"
#include "memory/peak.h"

namespace antegrad::compiler {
namespace {

void report_capture(const ReportSources& sources, ProgramReport& report) {
  const auto& counts = sources.counts;
  report.capture_ms = sources.capture_milliseconds;
  report.shape_functions = counts.shape_functions;
  report.meta_kernels = counts.meta_kernels;
  report.real_kernels = counts.real_kernels + counts.memoised;
  report.without_shape_function = counts.slow;
  report.shape_checks = counts.checks;
}

void report_budget(const PlannedPartition& planned, ProgramReport& report) {
  if (!planned.budget) return;
  report.memory_budget_bytes = planned.budget->bytes;
  report.eager_peak_bytes = planned.budget->eager_peak;
  report.smallest_budget_bytes = planned.budget->smallest;
  report.recompute_share = planned.budget->recompute_share;
  report.planning_ms = planned.milliseconds;
  report.plan_carried_over = !planned.choice.carried.empty();
}

void report_donated(const Partition& partition, ProgramReport& report) {
  const auto& forward = partition.forward;
  const auto made_by = producers(forward);
  for (const auto value : partition.plan.donated()) {
    const auto producer = made_by[value];
    const auto type = value_text(forward.value(value));
    report.donated.push_back(producer < 0 ? fmt::format("a copy of {}", type)
                                          : fmt::format("%{} of {}: {}", value,
                                                        forward.nodes[producer].op.name(), type));
  }
}

void report_memory(const ReportSources& sources, ProgramReport& report) {
  const auto& partition = sources.partition;
  report.forward_nodes = static_cast<int64_t>(partition.forward.nodes.size());
  report.backward_nodes = static_cast<int64_t>(partition.backward.nodes.size());
  std::set<int32_t> recomputed;
  for (const auto& [id, op] : sources.recomputed) {
    ++report.recomputed[op.name()];
    recomputed.insert(id);
  }
  const auto timeline = simulate(partition, sources.planned.choice.rules_when_lowered());
  report.saved_bytes = timeline.saved_bytes;
  report.predicted_peak_bytes = timeline.peak_bytes;
  auto series = live_series("", timeline, recomputed);
  report.live_bytes = std::move(series.live);
  report.recomputed_at.assign(series.again.begin(), series.again.end());
  for (const auto& slot : partition.plan.saved) {
    const bool tensor = partition.forward.value(slot.value).kind == ValueKind::tensor;
    const bool ours = slot.owner == Owner::program || slot.owner == Owner::written;
    report.saved_tensors += tensor && ours;
  }
}

void report_hooks(const ReportSources& sources, ProgramReport& report) {
  report.hooks = sources.planned.hooks.names;
  report.hooked = sources.planned.hooks.hooked_texts;
  report.not_hooked = sources.planned.hooks.not_hooked_texts;
}

void report_cache(const ReportSources& sources, ProgramReport& report) {
  CacheNotes notes;
  note_code(sources.partition.forward, notes);
  note_code(sources.partition.backward, notes);
  if (sources.hooks != nullptr) note_hooks(*sources.hooks, notes);
  report.cache_hashes = std::move(notes.hashes);
  report.cache_bypass = std::move(notes.bypass);
  report.plan_cache = sources.cache.word;
  report.plan_cache_reason = sources.cache.why;
}

void report_kernels(const ReportSources& sources, ProgramReport& report) {
  for (const auto* graph : {&sources.forward, &sources.backward}) {
    report.generated_kernels.insert(report.generated_kernels.end(), graph->reports.begin(),
                                    graph->reports.end());
    report.other_products.insert(report.other_products.end(), graph->products.begin(),
                                 graph->products.end());
    for (const auto& call : graph->refused) {
      ++report.not_generated[fmt::format("{}: {}", call.op.name(), call.reason)];
    }
    if (!graph->failure.empty()) report.lowering_failure = graph->failure;
  }
}

}  // namespace

ProgramReport program_report(const ReportSources& sources) {
  ProgramReport report;
  report.name = sources.options.name;
  report.graph_hash = sources.graph_hash;
  report.joint_nodes = static_cast<int64_t>(sources.joint_nodes);
  report_capture(sources, report);
  report_budget(sources.planned, report);
  report_donated(sources.partition, report);
  report_memory(sources, report);
  report_hooks(sources, report);
  report_cache(sources, report);
  report_kernels(sources, report);
  return report;
}

}  // namespace antegrad::compiler
