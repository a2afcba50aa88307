#pragma once

/// \file
/// From a plan to the forward and the backward that implement it.

#include "graph/graph.h"
#include "partition/budget/timetable.h"
#include "partition/partition.h"

namespace antegrad::budget {

/// The partition of a plan. `joint` is the graph of its problem. The schedule is that of the
/// timetable.
Partition emit(Graph joint, const Timetable& timetable);

}  // namespace antegrad::budget
