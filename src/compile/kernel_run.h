#pragma once

/// \file
/// What is said of a generated kernel, and of which of its runs it holds.

#include <array>
#include <cstdint>

#include "graph/graph.h"
#include "graph/hash.h"
#include "lower/group_kernel.h"
#include "lower/level.h"

namespace antegrad::compiler {

/// Hashes, from the widest statement to the narrowest.
struct KernelRun {
  /// The kernel, and whether it is to have eager's bits or to be as accurate.
  Hash128 claim;
  /// And the code that a run with these sizes and this many threads goes through
  /// (lower/kernel_reach.h), on memory of such a form. What a proof shows.
  Hash128 reach;
  /// And these sizes and strides.
  Hash128 exact;
  /// The kernel, these threads, and about how many elements: as many as here, to a power of two;
  /// half of them; twice as many. What measured times are of.
  std::array<Hash128, 3> speeds;
};

/// `graph` has the values of the kernel's buffers.
KernelRun run_of(const Graph& graph, const lower::GroupKernel& kernel, int64_t threads);

}  // namespace antegrad::compiler
