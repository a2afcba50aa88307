#pragma once

/// \file
/// Removes nodes that return what is there already.
///
///  - A view that shows its storage as an earlier view of it does: detach(x), t(t(x)), a slice of
///    everything, view(view(x)) back to the first shape.
///  - A view of a view that both read in row-major order skips the one in the middle.
///  - A copy or cast to the same metadata, when no output needs the storage of its own that it
///    gives, and what it copies fills its storage (else the copy lets a larger one die).
/// Arithmetic is never judged: x + 0 is not x when x is -0.
///
/// Runs before partitioning, on a functional graph; storages that in-place nodes write are left
/// alone.

#include "graph/graph.h"

namespace antegrad {

Graph no_ops(Graph graph);

}  // namespace antegrad
