#include "partition/budget/plan.h"

#include <algorithm>

namespace antegrad::budget {

int32_t packing_of(const Problem& problem, int32_t value, Choice choice) {
  const Value& v = problem.value(value);
  if (choice == kSave) return v.always_packed ? v.first_packing : -1;
  if (!is_packing(choice)) return -1;
  for (int32_t p = v.first_packing; p < v.first_packing + v.packing_count; ++p) {
    if (packed_by(problem.packing(p)) == choice) return p;
  }
  return -1;
}

int64_t kept_bytes(const Problem& problem, int32_t value, Choice choice) {
  const int32_t packing = packing_of(problem, value, choice);
  return packing < 0 ? problem.value(value).bytes : problem.packing(packing).bytes;
}

Plan eager_plan(const Problem& problem) {
  // An operation that no result needs runs in the backward, where it was captured. Its outputs are
  // not saved, but its inputs are.
  const auto in_forward = [&](int32_t operation) {
    return operation < problem.forward_count && problem.operation(operation).required;
  };
  Plan plan(problem.values.size(), kRecompute);
  for (int32_t v = 0; v < static_cast<int32_t>(problem.values.size()); ++v) {
    const auto readers = problem.readers[v];
    const bool read = problem.value(v).gradient || !std::ranges::all_of(readers, in_forward);
    if (read && in_forward(problem.value(v).maker)) plan[v] = kSave;
  }
  return plan;
}

}  // namespace antegrad::budget
