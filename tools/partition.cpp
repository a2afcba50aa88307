#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <antegrad/error.h>

#include "command.h"
#include "cost/machine.h"
#include "explain/partition_report.h"
#include "explain/record.h"
#include "explain/replay.h"
#include "graph/byte_text.h"
#include "graph/text.h"
#include "options/settings.h"
#include "partition/default_partition.h"
#include "partition/partitioner.h"
#include "partition/ratio_budget.h"
#include "planning.h"

namespace antegrad::cli {
namespace {

constexpr int32_t kPoints = 20;

/// What a ratio counts as recomputed.
const std::map<RuntimeEstimator, std::string_view> kUnits = {
    {RuntimeEstimator::flops, "flop"},
    {RuntimeEstimator::testing, "nodes"},
    {RuntimeEstimator::profile, "seconds"}};

struct PartitionOptions {
  std::string file;
  std::vector<std::string> settings;
  std::vector<std::string> symbols;
  std::string ratio;
  std::string solver = "dp";
  std::string estimator = "flops";
  std::string record;
  bool curve = false;
  bool as_is = false;
  bool json = false;
};

/// The options of --set, and the flags that abbreviate them.
MinCutOptions min_cut_from(const PartitionOptions& options) {
  MinCutOptions min_cut;
  try {
    apply_setting(min_cut, "activation_memory_budget_solver=" + options.solver);
    apply_setting(min_cut, "activation_memory_budget_runtime_estimator=" + options.estimator);
    if (!options.ratio.empty()) apply_setting(min_cut, "activation_memory_budget=" + options.ratio);
    for (const std::string& setting : options.settings) apply_setting(min_cut, setting);
    check_ratio(min_cut);
  } catch (const OptionError& error) {
    throw UsageError(error.what());
  }
  return min_cut;
}

void show_curve(const Graph& joint, const PartitionChoice& choice, bool json) {
  const std::vector<RatioPoint> points = ratio_curve(joint, choice.min_cut, choice.symbols, kPoints,
                                                     node_seconds(joint, choice.symbols));
  if (json) {
    nlohmann::json list = nlohmann::json::array();
    for (const RatioPoint& point : points) {
      list.push_back({{"ratio", point.ratio},
                      {"recomputed", point.recomputed},
                      {"memory", point.memory},
                      {"saved_bytes", point.saved_bytes}});
    }
    std::cout << list.dump(2) << "\n";
    return;
  }
  if (points.empty()) {
    std::cout << "no range: the minimum cut saves no more than the inputs\n";
    return;
  }
  std::cout << fmt::format(
      "{:>6}  {:>12}  {:>12}  {:>8}\n", "ratio", "saved",
      std::string(kUnits.at(choice.min_cut.activation_memory_budget_runtime_estimator)) + " again",
      "of range");
  for (const RatioPoint& point : points) {
    std::cout << fmt::format("{:>6.2f}  {:>12}  {:>12.5g}  {:>7.1f}%\n", point.ratio,
                             bytes_text(point.saved_bytes), point.recomputed, 100 * point.memory);
  }
}

void partition(const PartitionOptions& options) {
  const GraphFile file = read_joint_file(options.file);
  const Graph& captured = file.graph;
  PartitionChoice choice = recorded_choice(file, options.symbols, options.as_is);
  choice.partitioner = Partitioner::min_cut;
  choice.min_cut = min_cut_from(options);
  choice.packings = {};
  const Graph joint = simplified(captured, choice);
  if (options.curve) return show_curve(joint, choice, options.json);
  const Partition decided = partition_for(joint, choice).partition;
  if (!options.record.empty()) {
    const std::string record = to_text(make_record(decided, choice));
    write_text(options.record, to_text(GraphFile{captured, record}));
  }
  const PartitionReport other =
      partition_report(default_partition(joint), "default_partition", choice.rules());
  const PartitionReport report = partition_report(decided, captured.name, choice.rules());
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
      "greedy\n  antegrad partition step.agraph --curve\n  antegrad partition step.agraph "
      "--json | jq .saved_bytes",
      fmt::join(settings(MinCutOptions()), "\n  ")));
  add_graph_file(*command, options->file);
  command->add_option("--set", options->settings, "A setting, repeatable; they are listed below")
      ->type_name("NAME=VALUE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command
      ->add_option("--budget-ratio", options->ratio,
                   "Memory budget from 0 (inputs only) to 1 (what the minimum cut saves)")
      ->type_name("RATIO");
  command->add_option("--solver", options->solver, "With --budget-ratio: the knapsack solver")
      ->check(one_of<BudgetSolver>())
      ->capture_default_str();
  command
      ->add_option("--estimator", options->estimator,
                   "With --budget-ratio: the cost of recomputing a node")
      ->check(one_of<RuntimeEstimator>())
      ->capture_default_str();
  command->add_flag("--curve", options->curve,
                    "What budgets from 0 to 1 would save and recompute, one per line, for "
                    "--solver and --estimator");
  command
      ->add_option("--record", options->record,
                   "Also write the graph with the decisions, for antegrad replay")
      ->type_name("FILE");
  add_symbols(*command, options->symbols);
  command->add_flag("--as-is", options->as_is,
                    "Remove dead nodes only; without it the graph is simplified first, as when it "
                    "is compiled");
  command->add_flag("--json", options->json, "One JSON object instead of tables");
  command->callback([options] { partition(*options); });
}

}  // namespace antegrad::cli
