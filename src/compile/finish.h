#pragma once

/// \file
/// The last passes over a forward or a backward, before it becomes a program. Every backward goes
/// through here: the usual one, and those that are made when a backward pass arrives in another
/// form.

#include "graph/call_plan.h"
#include "graph/graph.h"
#include "passes/pass_manager.h"

namespace antegrad::compiler {

Graph finish_forward(Graph forward, const PassContext& passes);

/// `plan`: of the forward that the backward belongs to. `forward_values`: of the backward.
/// `releases`: the backward gives up what is saved, so that it may write over what the plan
/// donates.
Graph finish_backward(Graph backward, const CallPlan& plan, const ForwardValues& forward_values,
                      bool releases, const PassContext& passes);

}  // namespace antegrad::compiler
