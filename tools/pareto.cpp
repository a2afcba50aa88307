#include "explain/pareto.h"

#include <functional>
#include <iostream>
#include <memory>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "command.h"
#include "partition/min_cut.h"
#include "planning.h"

namespace antegrad::cli {
namespace {

struct ParetoOptions {
  PlanOptions plan;
  std::string output;
};

struct Format {
  const char* ending;
  std::string (*write)(const Pareto&);
};

const Format kFormats[] = {
    {".svg", [](const Pareto& pareto) { return to_svg(pareto); }},
    {".json", [](const Pareto& pareto) { return to_json(pareto).dump(2) + "\n"; }},
    {".csv", [](const Pareto& pareto) { return to_csv(pareto); }},
    {"", [](const Pareto& pareto) { return to_text(pareto); }},
};

const Format& format_of(const std::string& output) {
  for (const Format& format : kFormats) {
    if (*format.ending == '\0' ? output.empty() : output.ends_with(format.ending)) return format;
  }
  throw UsageError(
      fmt::format("expected a file that ends in .svg, .json or .csv; found {}", output));
}

void show_pareto(const ParetoOptions& options) {
  const Format& format = format_of(options.output);
  const Planned planned(options.plan, Packing::as_recorded);
  const budget::Planner& planner = planned.planner();
  Pareto found = pareto(planner);
  const Partition min_cut = min_cut_partition(planned.joint(), {}, planned.rules().symbols);
  found.marks.push_back({"minimum cut", measure(planner, min_cut, planned.rules())});
  if (planned.budget()) {
    const budget::PlanPoint point = planned.point();
    found.marks.push_back({"chosen", {point.peak, point.extra}});
  }
  const std::string text = format.write(found);
  if (options.output.empty()) {
    std::cout << text;
  } else {
    write_text(options.output, text);
  }
}

}  // namespace

void add_pareto(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "pareto", "Show every point of peak memory and recompute time that plans reach");
  auto options = std::make_shared<ParetoOptions>();
  command->footer(
      "Examples:\n  antegrad pareto step.agraph\n"
      "  antegrad pareto step.agraph --budget 200MiB -o pareto.svg\n"
      "  antegrad pareto step.agraph --effort thorough -o pareto.csv");
  add_plan_options(*command, options->plan);
  command->add_option("-o,--output", options->output,
                      "Output file: .svg, .json or .csv; if omitted, a table on standard output");
  command->callback([options] { show_pareto(*options); });
}

}  // namespace antegrad::cli
