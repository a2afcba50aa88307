#include "partition/budget/candidates.h"

#include <algorithm>

namespace antegrad::budget {

Candidates::Candidates(const Problem& problem) {
  // Only values that the backward reads, and those that they depend on, need a decision.
  std::vector<bool> matters(problem.values.size(), false);
  const auto count = static_cast<int32_t>(problem.operations.size());
  needed_items(count, problem.reads, matters, [&](int32_t o) {
    return problem.operation(o).backward || any_marked(problem.makes[o], matters);
  });
  for (size_t v = 0; v < problem.values.size(); ++v) {
    if (problem.values[v].gradient) matters[v] = true;
  }
  Rows crossed;  // by value: positions of the forward
  for (int32_t v = 0; v < static_cast<int32_t>(problem.values.size()); ++v) {
    if (matters[v] && problem.is_choice(v)) {
      values_.push_back(v);
      int32_t last = -1;
      for (const int32_t reader : problem.readers[v]) {
        if (reader < problem.forward_count) last = std::max(last, reader);
      }
      for (int32_t p = problem.value(v).maker; p < last; ++p) crossed.add(p);
    }
    crossed.end_row();
  }
  crossing_ = crossed.transposed(problem.forward_count);
}

}  // namespace antegrad::budget
