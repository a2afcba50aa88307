#pragma once

/// \file
/// The passes on joint graphs, in order.

#include "graph/graph.h"
#include "passes/pass_manager.h"

namespace antegrad {

/// Verifies and simplifies a captured joint graph.
Graph run_joint_passes(Graph captured, const PassContext& context);

}  // namespace antegrad
