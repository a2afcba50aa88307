#include "planning.h"
#include "graph/analysis.h"

#include <charconv>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <antegrad/error.h>

#include "command.h"
#include "cost/machine.h"
#include "explain/replay.h"
#include "fusion/fused_nodes.h"
#include "graph/byte_text.h"
#include "graph/verify.h"
#include "partition/budget/frontier_cache.h"
#include "partition/budget_partition.h"
#include "progress.h"

namespace antegrad::cli {
namespace {

struct Budget {
  double share = 0;   ///< of the eager peak, if above 0
  int64_t bytes = 0;  ///< otherwise, the budget in bytes
};

Budget budget_from(const std::string& text) {
  if (text.ends_with('%')) {
    double percent = 0;
    const char* end = text.data() + text.size() - 1;
    const auto [stop, error] = std::from_chars(text.data(), end, percent);
    if (error == std::errc() && stop == end && percent > 0 && percent <= 1e6)
      return {percent / 100, 0};
  } else if (const auto bytes = bytes_from_text(text); bytes && *bytes > 0) {
    return {0, *bytes};
  }
  throw UsageError(fmt::format(
      "expected a budget such as 200MiB, 1.5GiB, or 50% of the eager peak; found {}", text));
}

}  // namespace

void add_plan_options(CLI::App& command, PlanOptions& options) {
  add_graph_file(command, options.file);
  add_budget_options(command, options);
}

void add_budget_options(CLI::App& command, PlanOptions& options) {
  command
      .add_option(
          "--budget", options.budget,
          "Limit on the bytes alive during forward and backward: with B, KiB, MiB or GiB, or a "
          "percentage of the eager peak")
      ->type_name("SIZE");
  command.add_option("--effort", options.effort, "Search effort: quick or thorough")
      ->check(one_of<BudgetEffort>())
      ->type_name("EFFORT")
      ->capture_default_str();
  command
      .add_option(
          "--machine", options.machine,
          "Machine whose times count: cpu or gpu; if omitted, that of the file's record, or of the "
          "graph's tensors")
      ->check(CLI::IsMember({"cpu", "gpu"}))
      ->type_name("MACHINE");
  add_symbols(command, options.symbols);
  command.add_flag("--as-is", options.as_is,
                   "Remove dead nodes only; without it the graph is simplified first, as when it "
                   "is compiled");
}

void add_partition_option(CLI::App& command, std::string& partition) {
  command.add_option("--partition", partition, "The partition: as_written (default) or min_cut")
      ->check(CLI::IsMember({"as_written", "min_cut"}))
      ->type_name("PARTITIONER")
      ->excludes("--budget");
}

Planned::Planned(const PlanOptions& options, Packing packing) {
  std::optional<Budget> budget;
  if (!options.budget.empty()) budget = budget_from(options.budget);
  GraphFile file = read_joint_file(options.file);
  choice_ = recorded_choice(file, options.symbols, options.as_is);
  captured_ = std::move(file.graph);
  if (packing == Packing::no) choice_.packings = {};
  choice_.partitioner = Partitioner::budget;
  choice_.budget = {};
  choice_.carried = {};
  choice_.budget.effort = *from_word<BudgetEffort>(options.effort);
  joint_ = simplified(captured_, choice_);
  count_on(options.machine, joint_, choice_);
  Progress progress("looking for plans");
  planner_ = std::make_unique<budget::Planner>(
      joint_, problem_of(joint_, choice_), choice_.packings, [&](const budget::Problem& problem) {
        return budget::frontier_of(
            problem, {choice_.budget.effort, [&](double done) { progress.show(done); }});
      });
  if (!budget) return;
  const auto eager = static_cast<double>(planner_->frontier().eager_peak);
  budget_ =
      budget->share > 0 ? static_cast<int64_t>(std::floor(budget->share * eager)) : budget->bytes;
}

budget::PlanPoint Planned::point() const {
  return budget_ ? planner_->pick(*budget_) : planner_->eager();
}

PartitionChoice Planned::choice() const {
  PartitionChoice choice = choice_;
  choice.budget.bytes = budget_.value_or(0);
  return choice;
}

std::string Planned::how() const {
  const std::vector<std::string>& ways = choice_.packings.ways;
  return fmt::format("{} search, times of a {}{}{}{}", word_of(choice_.budget.effort),
                     choice_.machine, choice_.fused.empty() ? "" : ", kernels generated",
                     ways.empty() ? "" : ", packing by ", fmt::join(ways, ", "));
}

PartitionChoice recorded_choice(const GraphFile& file, const std::vector<std::string>& symbols,
                                bool as_is) {
  PartitionChoice choice;
  if (!file.record.empty()) choice = parse_record(file.record).choice;
  std::vector<int64_t> values = byte_rules(file.graph, symbols, choice.symbols).symbols;
  if (values != choice.symbols) choice.measured = {};
  choice.symbols = std::move(values);
  choice.simplify = choice.simplify && !as_is;
  return choice;
}

void count_on(const std::string& machine, const Graph& joint, PartitionChoice& choice) {
  if (choice.machine.empty()) choice.machine = machine_of(joint);
  if (!machine.empty() && machine != choice.machine) {
    choice.machine = machine;
    choice.measured.seconds = {};
  }
  if (choice.fused.empty() || !choice.measured.seconds.empty()) return;
  choice.measured.seconds = fused_seconds(joint, choice.fused, choice.machine, choice.symbols);
}

GraphFile read_joint_file(const std::string& file) {
  GraphFile found = read_graph_file(file);
  verify(found.graph);
  if (!is_joint(found.graph)) {
    throw GraphError(ErrorText{"a joint graph, with primals and gradients", found.graph.name, ""});
  }
  number_nodes(found.graph);
  return found;
}

}  // namespace antegrad::cli
