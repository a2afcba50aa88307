#pragma once

/// \file
/// How long kernels take on this machine: the estimator `profile` of memory budgets.

#include <vector>

#include "graph/graph.h"
#include "ops/attrs.h"

namespace antegrad::runtime {

/// Seconds by Node::id, of one call on zeros, its dispatch included; views take none, and what
/// cannot be tried (KernelTrials::of) is -1. Each kind of call is timed once in a process.
/// Thread-safe.
std::vector<double> measure_seconds(const Graph& graph, const ops::AttrTables& tables);

}  // namespace antegrad::runtime
