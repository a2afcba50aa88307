#include <memory>
#include <utility>

#include <fmt/format.h>

#include "command.h"
#include "explain/replay.h"
#include "explain/svg_timeline.h"
#include "graph/byte_text.h"
#include "partition/default_partition.h"
#include "partition/min_cut.h"
#include "planning.h"

namespace antegrad::cli {
namespace {

struct TimelineCommand {
  PlanOptions plan;
  std::string output;
  std::string partition;
};

void timeline(const TimelineCommand& command) {
  if (!command.output.ends_with(".svg")) {
    throw UsageError(fmt::format("expected a file that ends in .svg; found {}", command.output));
  }
  std::vector<LiveSeries> series;
  TimelineOptions options;
  options.stretched = false;
  const auto add = [&](std::string name, const Partition& partition, const ByteRules& rules) {
    series.push_back(live_series(std::move(name), simulate(partition, rules)));
  };
  if (!command.plan.budget.empty()) {
    const Planned planned(command.plan);
    const budget::Planner& planner = planned.planner();
    options.title = planned.joint().name + ": memory alive over a step";
    options.budget = planned.budget();
    add("without a budget", planner.partition(planner.eager()), planned.rules());
    add("planned", planner.partition(planned.point()), planned.rules());
  } else {
    GraphFile file = read_joint_file(command.plan.file);
    const PartitionChoice choice = recorded_choice(file, command.plan.symbols, command.plan.as_is);
    const ByteRules rules = choice.rules();
    Graph graph = simplified(std::move(file.graph), choice);
    options.title = graph.name + ": memory alive over a step";
    add("as written", default_partition(graph), rules);
    if (command.partition == "min_cut") {
      add("minimum cut", min_cut_partition(std::move(graph), {}, rules.symbols), rules);
    }
  }
  // The series that others are compared with is drawn behind them.
  if (series.size() > 1) series.front().dashed = true;
  write_text(command.output, timeline_svg(series, options));
}

}  // namespace

void add_timeline(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "timeline", "Draw the memory alive over forward and backward of a partition");
  auto options = std::make_shared<TimelineCommand>();
  command->footer(
      "What is recomputed is shaded. With --budget or min_cut the partition as written is drawn "
      "beside.\n\nExamples:\n  antegrad timeline step.agraph -o step.svg\n"
      "  antegrad timeline step.agraph --budget 200MiB -o step.svg\n"
      "  antegrad timeline step.agraph --partition min_cut -o step.svg");
  add_plan_options(*command, options->plan);
  add_partition_option(*command, options->partition);
  command->add_option("-o,--output", options->output, "The picture, an .svg file")->required();
  command->callback([options] { timeline(*options); });
}

}  // namespace antegrad::cli
