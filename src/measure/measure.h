#pragma once

/// \file
/// Properties of a graph's kernels that only this machine knows: how long they take (the estimator
/// `profile`), and their scratch memory, that is, bytes that they allocate while they run, besides
/// their results.
///
/// Scratch memory comes from the same allocator as tensors and counts in the peak that a budget
/// limits. Matrix products and elementwise operators that are known to need none are not run to
/// measure it.

#include "cost/measurements.h"
#include "graph/graph.h"
#include "ops/attrs.h"

namespace antegrad::measuring {

/// Runs each kind of call (operator, arguments, sizes, strides) on made-up data, once per process,
/// including dispatch. Views take no time. Nodes that cannot be tried (KernelTrials::of) have
/// unknown time and count as without scratch memory. Generator states are restored. Thread-safe.
Measurements measure(const Graph& graph, const ops::AttrTables& tables, Needs needs);

}  // namespace antegrad::measuring
