#include "partition/min_cut.h"

#include <utility>

#include "graph/analysis.h"
#include "partition/default_partition.h"
#include "partition/ratio_budget.h"
#include "partition/split.h"
#include "partition/steps.h"

namespace antegrad {

Partition min_cut_partition(Graph joint, const MinCutOptions& options,
                            const std::vector<int64_t>& symbols,
                            const std::vector<double>& seconds) {
  if (!has_backward(joint)) return default_partition(std::move(joint));
  const StepGraph steps(joint, symbols, options.recomputable_ops);
  const CutSolution solution = ratio_cut(steps, options, seconds);
  Partition partition = split_at(std::move(joint), solution.saved());
  solution.tell_decisions(partition);
  return partition;
}

}  // namespace antegrad
