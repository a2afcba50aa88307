#include <iostream>
#include <limits>
#include <memory>

#include <nlohmann/json.hpp>

#include "command.h"
#include "explain/budget_report.h"
#include "explain/record.h"
#include "explain_kernels.h"
#include "graph/text.h"
#include "planning.h"

namespace antegrad::cli {
namespace {

struct ExplainOptions {
  std::vector<std::string> files;
  PlanOptions plan;
  KernelOptions kernels;
  std::string record;
  bool all = false;
  bool json = false;
};

constexpr size_t kShown = 30;

size_t shown(const ExplainOptions& options) {
  return options.all ? std::numeric_limits<size_t>::max() : kShown;
}

void explain_plan(const ExplainOptions& options) {
  if (!options.record.empty() && options.plan.budget.empty()) {
    throw UsageError("--record needs a --budget: without one nothing is decided");
  }
  const Planned planned(options.plan, Packing::as_recorded);
  const budget::PlanPoint point = planned.point();
  BudgetReport report = budget_report(planned.planner(), point, planned.budget());
  report.how = planned.how();
  if (!options.record.empty()) {
    const PartitionRecord record =
        make_record(planned.planner().partition(point), planned.choice());
    write_text(options.record, to_text(GraphFile{planned.captured(), to_text(record)}));
  }
  if (options.json) {
    std::cout << to_json(report).dump(2, ' ', false, nlohmann::json::error_handler_t::replace)
              << "\n";
  } else {
    std::cout << to_text(report, shown(options));
  }
}

void explain(ExplainOptions& options) {
  if (options.kernels.wanted) {
    explain_kernels(options.files, options.plan, options.kernels, shown(options), options.json);
    return;
  }
  if (options.files.size() > 1) throw UsageError("one FILE at a time, but for --kernels");
  options.plan.file = options.files.front();
  explain_plan(options);
}

}  // namespace

void add_explain(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "explain",
      "Explain what a plan for a memory budget saves and recomputes, why, and what it costs; or "
      "which kernels would be generated");
  auto options = std::make_shared<ExplainOptions>();
  command->footer(
      "Without --budget: the plan that saves everything the backward reads. Plans may pack "
      "tensors in the ways that the record of the file allows.\n\n"
      "Examples:\n  antegrad explain step.agraph --budget 200MiB\n"
      "  antegrad explain step.agraph --budget 50% --effort thorough --all\n"
      "  antegrad explain step.agraph --budget 1.5GiB --json | jq .recompute_us\n"
      "  antegrad explain step.agraph --budget 200MiB --record decided.agraph\n"
      "  antegrad explain --kernels step.agraph\n"
      "  antegrad explain --kernels step.agraph --source c --kernel group_7f2");
  command
      ->add_option("FILE", options->files,
                   "A saved graph (.agraph); - reads standard input. --kernels takes several")
      ->required();
  add_budget_options(*command, options->plan);
  add_kernel_options(*command, options->kernels);
  command->add_flag("--all", options->all, "All tensors or kernels, not only the largest 30");
  command->add_flag("--json", options->json, "One JSON object instead of tables");
  command
      ->add_option("--record", options->record,
                   "Also write the graph with the decisions, for antegrad replay")
      ->type_name("FILE")
      ->excludes("--kernels");
  command->callback([options] { explain(*options); });
}

}  // namespace antegrad::cli
