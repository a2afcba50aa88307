#include "compile/finish.h"

#include <utility>
#include <vector>

#include "partition/hooks/hooks.h"
#include "passes/reinplace.h"

namespace antegrad::compiler {

Graph finish_forward(Graph forward, const PassContext& passes) {
  return run_pass(
      "reinplace", [](Graph graph) { return reinplace(std::move(graph)); }, std::move(forward),
      passes);
}

Graph finish_backward(Graph backward, const CallPlan& plan, const ForwardValues& forward_values,
                      bool releases, const PassContext& passes) {
  std::vector<ValueId> donated;
  if (releases) donated = in_backward(backward, plan.donated(), forward_values);
  return run_pass(
      "reinplace", [&](Graph graph) { return reinplace(std::move(graph), donated); },
      std::move(backward), passes);
}

}  // namespace antegrad::compiler
