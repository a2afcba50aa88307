#include "compile/finish.h"

#include <utility>
#include <vector>

#include "partition/hooks/hooks.h"
#include "passes/collectives.h"
#include "passes/reinplace.h"

namespace antegrad::compiler {

namespace {

LoweredGraph finish(Graph graph, const ops::AttrTables& tables, const LoweringRules& rules,
                    const std::vector<ValueId>& donated, const PassContext& passes) {
  LoweredGraph lowered;
  if (rules.lowering != Lowering::off) {
    graph = run_pass(
        "lower",
        [&](Graph whole) {
          lowered = lower_graph(std::move(whole), tables, rules, donated);
          return std::move(lowered.graph);
        },
        std::move(graph), passes);
  }
  lowered.graph = run_pass(
      "reinplace", [&](Graph whole) { return reinplace(std::move(whole), donated); },
      std::move(graph), passes);
  if (has_collectives(lowered.graph)) {
    lowered.graph =
        run_pass("agree_on_collectives", agree_on_collectives, std::move(lowered.graph), passes);
  }
  return lowered;
}

}  // namespace

LoweredGraph finish_forward(Graph forward, const ops::AttrTables& tables,
                            const LoweringRules& rules, const PassContext& passes) {
  const auto updated = updated_primals(forward);
  return finish(std::move(forward), tables, rules, updated, passes);
}

LoweredGraph finish_backward(Graph backward, const ops::AttrTables& tables,
                             const LoweringRules& rules, const CallPlan& plan,
                             const ForwardValues& forward_values, bool releases,
                             const PassContext& passes) {
  std::vector<ValueId> donated;
  if (releases) donated = in_backward(backward, plan.donated(), forward_values);
  return finish(std::move(backward), tables, rules, donated, passes);
}

}  // namespace antegrad::compiler
