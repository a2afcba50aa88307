#include "partition/budget/emit.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "partition/split.h"

namespace antegrad::budget {
namespace {

/// Records where a value is dropped: after each slot that produced or used it, unless another use
/// follows soon.
void forget(const Graph& joint, const Timetable& timetable, int32_t value, int32_t window,
            std::vector<std::pair<int32_t, ValueId>>& forgotten) {
  const Problem& problem = timetable.problem();
  const std::vector<int32_t> uses = timetable.uses(value);
  const auto made = timetable.runs(problem.value(value).maker);
  std::vector<int32_t> touched;
  std::set_union(uses.begin(), uses.end(), made.begin(), made.end(), std::back_inserter(touched));
  for (const int32_t slot : touched) {
    const auto next = std::upper_bound(uses.begin(), uses.end(), slot);
    if (next == uses.end() || *next - slot <= window) continue;
    const int32_t node = problem.operation(problem.forward_count + slot).node;
    forgotten.emplace_back(joint.nodes[node].id, problem.value(value).id);
  }
}

}  // namespace

Partition emit(Graph joint, const Timetable& timetable) {
  const Problem& problem = timetable.problem();
  const Plan& plan = timetable.plan();
  IdMap<ValueId, bool> saved(joint.values.size(), false);
  for (const ValueId id : saved.ids()) {
    saved[id] = joint.value(id).kind == ValueKind::token;  // states of repeated draws
  }
  for (const Input& input : joint.inputs) saved[input.value] = true;
  Schedule schedule;
  schedule.planned = true;
  for (size_t v = 0; v < problem.values.size(); ++v) {
    const Value& value = problem.values[v];
    const auto index = static_cast<int32_t>(v);
    const bool of_forward = value.maker < problem.forward_count;
    if (value.result || is_saved(value, plan[v])) {
      saved[value.id] = true;
    } else if (value.fused && of_forward) {
      forget(joint, timetable, index, 0, schedule.forget);
    } else if (is_window(plan[v]) && problem.is_choice(index)) {
      forget(joint, timetable, index, plan[v], schedule.forget);
    }
  }
  std::sort(schedule.forget.begin(), schedule.forget.end());
  return split_at(std::move(joint), saved, schedule);
}

}  // namespace antegrad::budget
