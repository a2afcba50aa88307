#include "partition/budget/planner.h"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

#include <antegrad/error.h>

#include "graph/byte_text.h"
#include "partition/budget/emit.h"
#include "partition/budget/frontier_cache.h"
#include "partition/budget/simulator.h"
#include "partition/budget/timetable.h"

namespace antegrad::budget {
namespace {

constexpr std::string_view kPackedByPlan = "packed_by_plan";

std::string_view rule_of(const Problem& problem, int32_t index, Choice choice) {
  const Value& value = problem.value(index);
  if (value.result) return "result";
  if (!problem.operation(value.maker).again) return "runs once";
  if (value.always_saved) return "must_save";
  if (choice == kSave) return "saved_by_plan";
  if (is_packing(choice)) return kPackedByPlan;
  return is_window(choice) ? "recomputed_and_forgotten" : "recomputed_by_plan";
}

/// "4718592 bytes (4.500 MiB)"
std::string in_words(int64_t bytes) {
  return fmt::format("{} bytes ({})", bytes, precise_bytes_text(bytes));
}

}  // namespace

Planner::Planner(const Graph& joint, const std::vector<double>& seconds, const ByteRules& rules,
                 const FrontierOptions& options, const Packings& packings)
    : Planner(joint, make_problem(joint, seconds, rules, packings), packings,
              [&](const Problem& problem) { return frontier_of(problem, options); }) {}

Planner::Planner(const Graph& joint, Problem problem, const Packings& packings,
                 const FrontierOf& frontier_of)
    : joint_(joint),
      problem_(std::move(problem)),
      ways_(packings.ways),
      frontier_(frontier_of(problem_)) {}

PlanPoint Planner::pick(int64_t budget, double byte_time) const {
  if (auto point = frontier_->archive.at_most(budget, byte_time)) return *std::move(point);
  const int64_t smallest = frontier_->archive.smallest().peak;
  throw BudgetError(
      smallest,
      ErrorText{
          fmt::format("a memory budget of at least {}, the smallest for which a plan is known",
                      in_words(smallest)),
          "a budget of " + in_words(budget),
          frontier_->floor < smallest
              ? fmt::format("raise the budget; the thorough effort may find smaller plans, "
                            "but none below {}",
                            in_words(frontier_->floor))
              : "raise the budget, or make the largest tensors smaller"});
}

PlanPoint Planner::eager() const {
  auto plan = std::make_shared<Plan>(eager_plan(problem_));
  Simulator simulator(problem_);
  const Measure measure = simulator.set(*plan);
  return {measure.peak, measure.extra, std::move(plan)};
}

Partition Planner::partition(const PlanPoint& point) const {
  Timetable timetable(problem_);
  timetable.set(*point.plan);
  Partition partition = emit(joint_, timetable);
  for (int32_t v = 0; v < static_cast<int32_t>(problem_.values.size()); ++v) {
    const Choice choice = (*point.plan)[v];
    const bool packed = problem_.is_choice(v) && is_packing(choice) && timetable.is_used(v);
    if (packed) partition.packed.emplace(problem_.value(v).id, way_of(choice));
  }
  for (const SavedSlot& saved : partition.plan.saved) {
    const bool free = saved.held_by_caller();
    const bool packed = partition.packed.count(saved.value) != 0;
    partition.decisions.push_back({saved.value, true,
                                   free     ? name(saved)
                                   : packed ? kPackedByPlan
                                            : "saved_by_plan"});
  }
  for (int32_t v = 0; v < static_cast<int32_t>(problem_.values.size()); ++v) {
    const Value& value = problem_.value(v);
    if (problem_.operation(value.maker).backward || timetable.runs(value.maker).empty()) continue;
    const Choice choice = (*point.plan)[v];
    if (is_kept(choice) || value.result || !timetable.is_used(v)) continue;
    partition.decisions.push_back({value.id, false, rule_of(problem_, v, choice)});
  }
  return partition;
}

std::vector<Reason> Planner::reasons(const PlanPoint& point) const {
  Simulator simulator(problem_);
  const Measure now = simulator.set(*point.plan);
  const Timetable& timetable = simulator.timetable();
  std::vector<Reason> reasons;
  for (int32_t v = 0; v < static_cast<int32_t>(problem_.values.size()); ++v) {
    const Value& value = problem_.value(v);
    if (problem_.operation(value.maker).backward || !timetable.is_used(v)) continue;
    Reason reason;
    reason.value = v;
    reason.decided = problem_.is_choice(v);
    reason.choice = reason.decided ? (*point.plan)[v] : kSave;
    reason.packing = packing_of(problem_, v, reason.choice);
    reason.rule = rule_of(problem_, v, reason.choice);
    reason.runs = static_cast<int64_t>(timetable.runs(value.maker).size());
    reason.moved = !timetable.in_forward(value.maker);
    if (reason.decided) {
      const Measure other = simulator.probe({v, is_kept(reason.choice) ? kRecompute : kSave});
      reason.other_peak = other.peak - now.peak;
      reason.other_extra = other.extra - now.extra;
    }
    reasons.push_back(reason);
  }
  return reasons;
}

}  // namespace antegrad::budget
