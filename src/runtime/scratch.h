#pragma once

/// \file
/// Memory that kernels take while they run, beyond what they return.
///
/// A kernel's scratch passes through the same allocator as tensors and counts in the peak that a
/// budget limits, and only the kernel knows it: each kind of call (operator, arguments, sizes,
/// strides) is run once on zeros and watched. Matrix products and elementwise operators that are
/// known to take none are not run.

#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "ops/attrs.h"

namespace antegrad::runtime {

/// Bytes by Node::id. What cannot run on zeros, has effects, or is not of libtorch itself counts as
/// 0. Generators are left as they were. What was found is kept for the process. Thread-safe.
std::vector<int64_t> measure_scratch(const Graph& graph, const ops::AttrTables& tables);

}  // namespace antegrad::runtime
