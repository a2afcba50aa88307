#include "compile/compile_logs.h"

#include <fmt/format.h>

#include <mutex>
#include <set>
#include <sstream>
#include <utility>

#include "explain/partition_report.h"
#include "graph/byte_text.h"
#include "graph/text.h"
#include "log/log.h"
#include "runtime/fork_gate.h"

namespace antegrad::compiler {
namespace {

template <class Text>
void trace_text(const TraceId& id, std::string_view name, Text&& text,
                std::string_view encoding = "string") {
  if (trace_enabled()) trace(id, {name, encoding, text()});
}

std::string sums_text(const PartitionStats& stats) {
  return fmt::format("saves {} values, {}; recomputes {} of {} nodes of the forward; peak {}",
                     stats.saved.size(), bytes_text(stats.saved_bytes), stats.recomputed_nodes,
                     stats.forward_nodes, bytes_text(stats.peak_bytes));
}

// Each saved value, and each recomputed one of which the partitioner says the rule.
std::string decisions_text(const PartitionReport& report) {
  auto text = sums_text(report);
  for (const auto& saved : report.saved) {
    text += fmt::format("\n  saved       %{}: {} of {}, {}: {}", to_string(saved.value), saved.text,
                        saved.made_by, bytes_text(saved.bytes), saved.why);
  }
  for (const auto& value : report.values) {
    if (value.saved) continue;
    text += fmt::format("\n  recomputed  %{}: {} of {}: {}", to_string(value.value), value.text,
                        value.made_by, value.rule);
  }
  return text;
}

std::string memory_text(const Timeline& timeline) {
  std::string text;
  for (const auto& point : timeline.points) {
    text += fmt::format("\n  {:<9} #{:<5} {:>10}  {}",
                        point.pass == Phase::forward ? "forward" : "backward", point.node_id,
                        bytes_text(point.live), point.op.name());
  }
  return text;
}

std::string stages_text(const ProgramReport& report) {
  std::string text;
  for (const auto& stage : report.stages) {
    text += fmt::format("\n  {:>8.2f} ms  {:>8.2f} ms  {}", stage.start_ms, stage.milliseconds,
                        stage.name);
  }
  return text;
}

}  // namespace

void warn_once(Log which, const std::string& text) {
  static std::set<std::pair<Log, std::string>> known;
  static std::mutex mutex;
  const runtime::ForkSafeLock lock(mutex);
  if (known.emplace(which, text).second) {
    log(
        which, [&] { return text; }, LogLevel::warning);
  }
}

void add_program(ChromeTrace& trace, const std::string& name, const ProgramReport& report,
                 const Partition& partition, const PartitionChoice& choice) {
  trace.add_compilation(name + " compilation", report.stages);
  trace.add_step(name + " step, as planned", partition, choice.rules(), choice.machine,
                 choice.measured);
}

void CompileLogs::joint(const Graph& joint) const {
  log(Log::graphs, [&] { return "joint graph of " + name_ + "\n" + to_text(joint); });
  trace_text(id_, "antegrad_joint_graph", [&] { return to_text(joint); });
}

void CompileLogs::split(const Partition& partition, const PartitionChoice& choice) const {
  const auto rules = choice.rules();
  const bool details = log_enabled(Log::partition, LogLevel::debug);
  log(Log::partition, [&] {
    return name_ + ": " +
           (details ? decisions_text(partition_report(partition, name_, rules))
                    : sums_text(partition_stats(partition, rules)));
  });
  trace_text(id_, "antegrad_partition",
             [&] { return decisions_text(partition_report(partition, name_, rules)); });
}

void CompileLogs::compiled(const Partition& partition, const PartitionChoice& choice,
                           const ProgramReport& report) const {
  for (const auto* graph : {&partition.forward, &partition.backward}) {
    log(
        Log::graphs, [&] { return graph->name + "\n" + to_text(*graph); }, LogLevel::debug);
  }
  log(Log::captures, [&] {
    return fmt::format(
        "{}: {} nodes, {} in the forward and {} in the backward; captured in {:.2f} ms, compiled "
        "in {:.2f} ms{}",
        name_, report.joint_nodes, report.forward_nodes, report.backward_nodes, report.capture_ms,
        report.compile_ms, log_enabled(Log::captures, LogLevel::debug) ? stages_text(report) : "");
  });
  log(Log::memory, [&] {
    return fmt::format("{}: {} saved intermediates, {} bytes; predicted peak {} bytes{}", name_,
                       report.saved_tensors, report.saved_bytes, report.predicted_peak_bytes,
                       log_enabled(Log::memory, LogLevel::debug)
                           ? memory_text(simulate(partition, choice.rules_when_lowered()))
                           : "");
  });
  trace_text(id_, "antegrad_forward_graph", [&] { return to_text(partition.forward); });
  trace_text(id_, "antegrad_backward_graph", [&] { return to_text(partition.backward); });
  trace_text(id_, "antegrad_report", [&] {
    std::ostringstream text;
    text << report;
    return text.str();
  });
  trace_text(
      id_, "antegrad_chrome_trace",
      [&] {
        ChromeTrace trace;
        add_program(trace, name_, report, partition, choice);
        return trace.to_json().dump(0);
      },
      "json");
}

}  // namespace antegrad::compiler
