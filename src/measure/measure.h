#pragma once

/// \file
/// What only this machine knows about the kernels of a graph: how long they take (the estimator
/// `profile`), and how much memory they take while they run, beyond what they return.
///
/// A kernel's scratch passes through the same allocator as tensors and counts in the peak that a
/// budget limits. Matrix products and elementwise operators that are known to take none are not
/// run for it.

#include "cost/measurements.h"
#include "graph/graph.h"
#include "ops/attrs.h"

namespace antegrad::measuring {

/// Each kind of call (operator, arguments, sizes, strides) is run on zeros, once in a process, its
/// dispatch included. Views take no time. What cannot be tried (KernelTrials::of) has no known time
/// and counts as without scratch. Generators are left as they were. Thread-safe.
Measurements measure(const Graph& graph, const ops::AttrTables& tables, Needs needs);

}  // namespace antegrad::measuring
