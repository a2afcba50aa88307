#pragma once

/// \file
/// Waits for collectives that the program itself starts (`_c10d_functional::all_reduce` and the
/// like), so that they can be moved, and what a collective reads is not freed or overwritten while
/// it runs.
///
/// libtorch's wait names the result alone, and returns the same tensor; a program may read the
/// result by either name. Here each result of such a collective gets one wait, and is read by
/// nobody else:
///
///   antegrad::wait_once(Tensor started, Tensor[] sources, str group) -> Tensor
///
/// It stands where the program first reads the result, and otherwise at the end of the forward or
/// backward in which the collective started.

#include "graph/graph.h"

namespace antegrad {

/// `agreed`: collectives may be repeated, merged and left out (OpTraits::agreed), under operators
/// of antegrad's that say so. Runs on joint graphs.
Graph pair_waits(Graph graph, bool agreed);

}  // namespace antegrad
