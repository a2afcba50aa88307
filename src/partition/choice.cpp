#include "partition/choice.h"

#include <cmath>

#include <antegrad/error.h>

#include "partition/budget/planner.h"
#include "partition/default_partition.h"
#include "partition/min_cut.h"
#include "partition/split.h"

namespace antegrad {
namespace {

Partitioned plan(const Graph& joint, const PartitionChoice& choice) {
  const BudgetOptions& options = choice.budget;
  const budget::Planner planner(joint, seconds_by_position(joint, choice), choice.rules,
                                {options.effort, {}}, choice.packings);
  PlannedBudget planned;
  planned.eager_peak = planner.frontier().eager_peak;
  planned.smallest = planner.frontier().archive.smallest().peak;
  const auto range = static_cast<double>(planned.eager_peak - planned.smallest);
  planned.bytes =
      options.share ? planned.smallest + std::llround(*options.share * range) : options.bytes;
  const budget::PlanPoint point = planner.pick(planned.bytes);
  planned.recompute_share =
      static_cast<double>(point.extra) / static_cast<double>(planner.problem().time);
  return {planner.partition(point), planned};
}

}  // namespace

std::vector<double> seconds_by_position(const Graph& joint, const PartitionChoice& choice) {
  const std::string name =
      choice.machine.empty() ? std::string(budget::machine_of(joint)) : choice.machine;
  const std::optional<Machine> machine = machine_named(name);
  if (!machine) throw OptionError(ErrorText{"the machine cpu or gpu", name, ""});
  std::vector<double> seconds = budget::roofline(joint, *machine, choice.rules);
  for (size_t i = 0; i < seconds.size(); ++i) {
    const auto id = static_cast<size_t>(joint.nodes[i].id);
    if (id < choice.seconds.size() && choice.seconds[id] >= 0) seconds[i] = choice.seconds[id];
  }
  return seconds;
}

bool wants_seconds(const PartitionChoice& choice) {
  switch (choice.partitioner) {
    case Partitioner::as_written: return false;
    case Partitioner::min_cut:
      return choice.min_cut.activation_memory_budget != 1 &&
             choice.min_cut.activation_memory_budget_runtime_estimator == RuntimeEstimator::profile;
    case Partitioner::budget: return choice.budget.profile;
  }
  AG_CHECK(false, "no such partitioner");
}

Partitioned partition_for(const Graph& joint, const PartitionChoice& choice) {
  if (!has_backward(joint)) return {default_partition(joint), {}};
  switch (choice.partitioner) {
    case Partitioner::as_written: return {default_partition(joint), {}};
    case Partitioner::min_cut: {
      const std::vector<double> seconds =
          wants_seconds(choice) ? seconds_by_position(joint, choice) : std::vector<double>();
      return {min_cut_partition(joint, choice.min_cut, choice.rules.symbols, seconds), {}};
    }
    case Partitioner::budget: return plan(joint, choice);
  }
  AG_CHECK(false, "no such partitioner");
}

}  // namespace antegrad
