#pragma once

/// \file
/// Masks of random numbers on the CPU (bernoulli with a probability in new memory, as of dropout)
/// become bools, and numbers again where they are read.
///
/// The draws and their bits stay the same (ops/draw_bools.cpp), but a backward that needs the mask
/// keeps a byte an element and not a number. Runs before partitioning, on a functional graph.

#include "graph/graph.h"

namespace antegrad {

Graph bool_masks(Graph graph);

}  // namespace antegrad
