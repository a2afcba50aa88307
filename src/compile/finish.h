#pragma once

/// \file
/// The last passes over a forward or a backward graph, before it becomes a program. Every backward
/// uses them: the usual one, and those made later for other backward forms.

#include "compile/lowering.h"
#include "graph/call_plan.h"
#include "graph/graph.h"
#include "passes/pass_manager.h"

namespace antegrad::compiler {

/// Generates kernels, then lets the other nodes write in place.
LoweredGraph finish_forward(Graph forward, const ops::AttrTables& tables,
                            const LoweringRules& rules, const PassContext& passes);

/// `plan` is that of the forward to which the backward belongs. `forward_values` are those in the
/// backward. `releases`: the backward releases saved tensors, so that it may overwrite those that
/// the plan donates.
LoweredGraph finish_backward(Graph backward, const ops::AttrTables& tables,
                             const LoweringRules& rules, const CallPlan& plan,
                             const ForwardValues& forward_values, bool releases,
                             const PassContext& passes);

}  // namespace antegrad::compiler
