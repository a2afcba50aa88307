#include "partition/budget_partition.h"

#include <cmath>
#include <memory>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <antegrad/error.h>

#include "cost/machine.h"
#include "options/words.h"
#include "partition/budget/carry.h"
#include "partition/budget/frontier_cache.h"
#include "partition/budget/planner.h"

namespace antegrad {
namespace {

/// Picoseconds that each byte of peak adds to a step.
double byte_time_of(const Graph& joint, const PartitionChoice& choice) {
  if (!choice.fresh_memory) return 0;
  return machine_named(choice.machine, joint).seconds_per_fresh_byte * 1e12;
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): rows take it so
Partitioned plan(Graph joint, const PartitionChoice& choice) {
  const BudgetOptions& options = choice.budget;
  bool carried = !choice.carried.empty();
  const auto frontier_of = [&](const budget::Problem& problem) {
    if (carried) {
      const budget::Plan plan = plan_of(problem, choice.carried);
      return std::make_shared<const budget::Frontier>(frontier_of_plans(problem, {&plan, 1}));
    }
    if (choice.carry) {
      auto known = known_frontier(problem, options.effort);
      const auto suits = [&](const budget::Frontier& frontier) {
        return options.share || frontier.archive.at_most(options.bytes);
      };
      if (known.frontier != nullptr && suits(*known.frontier)) {
        carried = known.carried;
        return known.frontier;
      }
    }
    return budget::frontier_of(problem, {options.effort, {}});
  };
  const budget::Planner planner(joint, problem_of(joint, choice), choice.packings, frontier_of);
  PlannedBudget planned;
  planned.eager_peak = planner.frontier().eager_peak;
  planned.smallest = planner.frontier().archive.smallest().peak;
  const auto range = static_cast<double>(planned.eager_peak - planned.smallest);
  planned.bytes =
      options.share ? planned.smallest + std::llround(*options.share * range) : options.bytes;
  const budget::PlanPoint point = planner.pick(planned.bytes, byte_time_of(joint, choice));
  planned.recompute_share =
      static_cast<double>(point.extra) / static_cast<double>(planner.problem().time);
  if (carried) planned.carried = decisions_of(planner.problem(), *point.plan);
  return {planner.partition(point), planned};
}

void check_budget(const PartitionChoice& choice) {
  if (choice.budget.share || choice.budget.bytes > 0) return;
  throw OptionError(ErrorText{"a memory budget above 0 bytes", std::to_string(choice.budget.bytes),
                              "set one with with_memory_budget(512_MiB)"});
}

void write_budget(const PartitionChoice& choice, nlohmann::json& record) {
  record["budget_bytes"] = choice.budget.bytes;
  record["effort"] = word_of(choice.budget.effort);
  record["profile"] = word_of(choice.budget.profile);
  if (!choice.machine.empty()) record["machine"] = choice.machine;
  if (choice.fresh_memory) record["fresh_memory"] = true;
  if (!choice.carried.empty()) record["carried"] = choice.carried;
}

template <class Enum>
Enum recorded_word(const std::string& word) {
  if (const auto value = from_word<Enum>(word)) return *value;
  throw GraphError(
      ErrorText{fmt::format("one of the words {} in the record", fmt::join(kWords<Enum>, ", ")),
                word, "was it written by a newer version?"});
}

void read_budget(const nlohmann::json& record, PartitionChoice& choice) {
  choice.budget.bytes = record.at("budget_bytes").get<int64_t>();
  choice.budget.effort = recorded_word<BudgetEffort>(record.at("effort").get<std::string>());
  choice.budget.profile = recorded_word<BudgetProfile>(record.value("profile", "off"));
  choice.machine = record.value("machine", "");
  choice.fresh_memory = record.value("fresh_memory", false);
  choice.carried = record.value("carried", budget::Decisions());
}

}  // namespace

budget::Problem problem_of(const Graph& joint, const PartitionChoice& choice) {
  const Machine& machine = machine_named(choice.machine, joint);
  return budget::make_problem(joint, node_seconds(joint, choice.symbols, machine, choice.measured),
                              choice.rules(), choice.packings, 1 / machine.bytes_per_second);
}

PartitionerRow budget_partitioner() {
  return {.name = word_of(Partitioner::budget),
          .reads = {"memory_budget", "memory_share", "budget_effort", "budget_profile", "cache_dir",
                    "memory_budget_compressors"},
          .packs = true,
          .check = check_budget,
          .needs = [](const PartitionChoice& choice) -> Needs {
            const BudgetProfile profile = choice.budget.profile;
            return {.seconds = profile == BudgetProfile::measured,
                    .rates = profile != BudgetProfile::off,
                    .scratch = true};
          },
          .partition = plan,
          .write = write_budget,
          .read = read_budget};
}

}  // namespace antegrad
