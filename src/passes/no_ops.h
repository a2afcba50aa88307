#pragma once

/// \file
/// Removes nodes whose result already exists.
///
///  - A view with the same metadata as an earlier view of its storage: detach(x), t(t(x)), a slice
///    of the whole tensor, view(view(x)) back to the first shape.
///  - The middle one of two successive views, if both read in row-major order.
///  - A copy or cast to the same metadata, unless an output needs a storage of its own, or the
///    source fills only part of its storage (the copy then lets the larger storage die).
///
/// Arithmetic is never removed: x + 0 differs from x if x is -0.
///
/// Runs before partitioning, on a functional graph. Storages that in-place nodes write are left
/// alone.

#include "graph/graph.h"

namespace antegrad {

Graph no_ops(Graph graph);

}  // namespace antegrad
