#include <memory>

#include <fmt/format.h>

#include "command.h"
#include "explain/chrome_trace.h"
#include "explain/replay.h"
#include "partition/default_partition.h"
#include "partition/min_cut.h"
#include "planning.h"

namespace antegrad::cli {
namespace {

struct TraceCommand {
  PlanOptions plan;
  std::string output;
  std::string partition;
};

void trace(const TraceCommand& command) {
  if (!command.output.ends_with(".json")) {
    throw UsageError(fmt::format("expected a file that ends in .json; found {}", command.output));
  }
  ChromeTrace trace;
  const auto add = [&](const Graph& joint, const std::string& how, const Partition& partition,
                       const PartitionChoice& choice) {
    trace.add_step(fmt::format("{}, {}", joint.name, how), partition, choice.rules(),
                   choice.machine, choice.measured);
  };
  if (!command.plan.budget.empty()) {
    const Planned planned(command.plan);
    const budget::Planner& planner = planned.planner();
    add(planned.joint(), "planned", planner.partition(planned.point()), planned.choice());
  } else {
    GraphFile file = read_joint_file(command.plan.file);
    PartitionChoice choice = recorded_choice(file, command.plan.symbols, command.plan.as_is);
    const Graph graph = simplified(std::move(file.graph), choice);
    count_on(command.plan.machine, graph, choice);
    if (command.partition == "min_cut") {
      add(graph, "minimum cut", min_cut_partition(graph, {}, choice.symbols), choice);
    } else {
      add(graph, "as written", default_partition(graph), choice);
    }
  }
  write_text(command.output, trace.to_json().dump());
}

}  // namespace

void add_trace(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("trace", "Write the operators of a step as a trace for Perfetto");
  auto options = std::make_shared<TraceCommand>();
  command->footer(
      "Durations are estimates. https://ui.perfetto.dev opens the file.\n\nExamples:\n"
      "  antegrad trace step.agraph -o trace.json\n"
      "  antegrad trace step.agraph --budget 200MiB -o trace.json");
  add_plan_options(*command, options->plan);
  add_partition_option(*command, options->partition);
  command->add_option("-o,--output", options->output, "The trace, a .json file")->required();
  command->callback([options] { trace(*options); });
}

}  // namespace antegrad::cli
