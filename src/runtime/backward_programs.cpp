#include "runtime/backward_programs.h"

#include <functional>

namespace antegrad::runtime {

BackwardKey usual_key(const CallPlan& plan) {
  BackwardKey key;
  key.form.tangents.resize(plan.tangents.size());
  key.wanted.assign(plan.gradients.size(), true);
  return key;
}

BackwardPrograms::BackwardPrograms(const CallPlan& plan,
                                   std::shared_ptr<const BackwardProgram> usual,
                                   BackwardSource source, AliasCheck aliases,
                                   std::shared_ptr<GraphCounts> graphs)
    : plan_(plan), source_(std::move(source)), aliases_(aliases), graphs_(std::move(graphs)) {
  if (usual) programs_.put(usual_key(plan), std::move(usual));
}

std::shared_ptr<const BackwardProgram> BackwardPrograms::get(const BackwardKey& key) const {
  return programs_.get(key, [&] {
    const auto [graph, tables, forward_values, kernels] = source_(key);
    return backward_program(plan_, graph, tables, forward_values, aliases_, nullptr, kernels,
                            graphs_);
  });
}

int64_t BackwardPrograms::bytes() const {
  return programs_.sum(std::mem_fn(&BackwardProgram::bytes));
}

}  // namespace antegrad::runtime
