#pragma once

/// \file
/// From a plan to the forward and the backward that run as it says.

#include "graph/graph.h"
#include "partition/budget/simulator.h"
#include "partition/partition.h"

namespace antegrad::budget {

/// The partition that the simulator's plan stands for; `joint` is the graph of its problem. What runs, and what
/// is alive when, is what the simulator says.
Partition emit(Graph joint, const Simulator& simulator);

}  // namespace antegrad::budget
