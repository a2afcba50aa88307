#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <antegrad/error.h>

#include "command.h"
#include "explain/partition_report.h"
#include "partition/default_partition.h"
#include "partition/min_cut.h"
#include "partition/min_cut_options.h"
#include "partition/ratio_budget.h"
#include "passes/dce.h"
#include "passes/joint_passes.h"

namespace antegrad::cli {
namespace {

struct PartitionOptions {
  std::string file;
  std::vector<std::string> settings;
  std::vector<std::string> symbols;
  std::optional<double> ratio;
  std::string solver = "dp";
  std::string estimator = "flops";
  bool as_is = false;
  bool json = false;
};

const std::map<std::string, BudgetSolver> kSolvers = {
    {"dp", BudgetSolver::dp}, {"greedy", BudgetSolver::greedy}, {"ilp", BudgetSolver::ilp}};
const std::map<std::string, RuntimeEstimator> kEstimators = {
    {"flops", RuntimeEstimator::flops}, {"testing", RuntimeEstimator::testing}};

Partition partition_with(Graph graph, const PartitionOptions& options, const MinCutOptions& min_cut,
                         const ByteRules& rules) {
  if (!options.ratio) return min_cut_partition(std::move(graph), min_cut, rules.symbols);
  RatioBudget budget;
  budget.ratio = *options.ratio;
  budget.solver = kSolvers.at(options.solver);
  budget.estimator = kEstimators.at(options.estimator);
  try {
    return ratio_budget_partition(std::move(graph), budget, min_cut, rules.symbols);
  } catch (const OptionError& error) {
    throw UsageError(error.what());
  }
}

void partition(const PartitionOptions& options) {
  MinCutOptions min_cut;
  try {
    for (const std::string& setting : options.settings) apply_setting(min_cut, setting);
  } catch (const OptionError& error) {
    throw UsageError(error.what());
  }
  Graph graph = read_valid_graph(options.file);
  if (!is_joint(graph)) {
    throw GraphError(ErrorText{"a joint graph, with primals and gradients", graph.name, ""});
  }
  const ByteRules rules = byte_rules(graph, options.symbols);
  const std::string name = graph.name;
  graph = options.as_is ? dce(std::move(graph)) : run_joint_passes(std::move(graph), {});
  const PartitionReport other =
      partition_report(default_partition(graph), "default_partition", rules);
  const PartitionReport report =
      partition_report(partition_with(std::move(graph), options, min_cut, rules), name, rules);
  if (options.json) {
    std::cout
        << to_json(report, other).dump(2, ' ', false, nlohmann::json::error_handler_t::replace)
        << "\n";
  } else {
    std::cout << to_text(report, other);
  }
}

}  // namespace

void add_partition(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "partition", "Show what the minimum-cut partition saves and recomputes, and by which rule");
  auto options = std::make_shared<PartitionOptions>();
  command->footer(fmt::format(
      "Settings and their defaults:\n  {}\n  recomputable_ops=OP,...\n\n"
      "Examples:\n  antegrad partition step.agraph --set "
      "aggressive_recomputation=true\n  antegrad partition step.agraph --budget-ratio 0.5 --solver "
      "greedy\n  antegrad partition step.agraph "
      "--json | jq .saved_bytes",
      fmt::join(settings(MinCutOptions()), "\n  ")));
  add_graph_file(*command, options->file);
  command->add_option("--set", options->settings, "A setting, repeatable; they are listed below")
      ->type_name("NAME=VALUE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_option("--budget-ratio", options->ratio,
                      "Memory budget from 0 (inputs only) to 1 (what the minimum cut saves)");
  command->add_option("--solver", options->solver, "With --budget-ratio: what chooses")
      ->check(CLI::IsMember({"dp", "greedy", "ilp"}))
      ->capture_default_str();
  command
      ->add_option("--estimator", options->estimator,
                   "With --budget-ratio: what computing a node again counts")
      ->check(CLI::IsMember({"flops", "testing"}))
      ->capture_default_str();
  add_symbols(*command, options->symbols);
  command->add_flag("--as-is", options->as_is,
                    "Remove dead nodes only; without it the graph is simplified first, as when it "
                    "is compiled");
  command->add_flag("--json", options->json, "One JSON object instead of tables");
  command->callback([options] { partition(*options); });
}

}  // namespace antegrad::cli
